//! QR codes: error correction M, a quiet zone of four modules, as SVG and as one-bit PNG.

use std::fmt::Write;

use qrcodegen::{DataTooLong, Mask, QrCode, QrCodeEcc, QrSegment, Version};

use crate::fault::Fault;

/// Modules of quiet zone on each side (ISO/IEC 18004).
const QUIET: u32 = 4;

/// A drawn QR code.
pub struct Picture {
    code: QrCode,
}

/// Why a picture is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureRefused {
    /// The text does not fit into any QR code.
    TextTooLong,
    /// A module would be smaller than a pixel; so many are needed.
    TooSmall {
        /// The least size.
        least: u32,
    },
}

impl Picture {
    /// The QR code of a text.
    pub fn of(text: &str) -> Result<Self, PictureRefused> {
        let segments = QrSegment::make_segments(text);
        // Never more than M: the printed density is the same for every address of a length.
        let code = QrCode::encode_segments_advanced(
            &segments,
            QrCodeEcc::Medium,
            Version::MIN,
            Version::MAX,
            None::<Mask>,
            false,
        );
        match code {
            Ok(code) => Ok(Self { code }),
            Err(DataTooLong::SegmentTooLong | DataTooLong::DataOverCapacity(..)) => {
                Err(PictureRefused::TextTooLong)
            }
        }
    }

    fn modules(&self) -> u32 {
        u32::try_from(self.code.size()).unwrap_or(0)
    }

    /// Whether a module is dark; outside, where the quiet zone is, none is.
    fn is_dark(&self, x: u32, y: u32) -> bool {
        match (i32::try_from(x), i32::try_from(y)) {
            (Ok(x), Ok(y)) => self.code.get_module(x, y),
            _ => false,
        }
    }

    /// A drawing without a size of its own, one unit a module.
    pub fn svg(&self) -> String {
        let side = self.modules() + 2 * QUIET;
        let mut path = String::new();
        for y in 0..self.modules() {
            let mut x = 0;
            while x < self.modules() {
                let run = (x..self.modules()).take_while(|x| self.is_dark(*x, y));
                let run = u32::try_from(run.count()).unwrap_or(0);
                if run > 0 {
                    let (left, top) = (x + QUIET, y + QUIET);
                    // Writing to a String cannot fail.
                    let _ = write!(path, "M{left} {top}h{run}v1h-{run}z");
                }
                x += run.max(1);
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/>\
             <path d=\"{path}\"/></svg>"
        )
    }

    /// A square picture of so many pixels a side. Modules are whole pixels; what is over widens
    /// the quiet zone.
    pub fn png(&self, pixels: u32) -> Result<Result<Vec<u8>, PictureRefused>, Fault> {
        let least = self.modules() + 2 * QUIET;
        let scale = pixels / least;
        if scale == 0 {
            return Ok(Err(PictureRefused::TooSmall { least }));
        }
        let margin = (pixels - scale * self.modules()) / 2;
        let bytes_a_row = pixels.div_ceil(8) as usize;
        let mut image = Vec::with_capacity(bytes_a_row * pixels as usize);
        for y in 0..pixels {
            let mut row = vec![0xff_u8; bytes_a_row];
            for x in 0..pixels {
                let module = |at: u32| at.checked_sub(margin).map(|inside| inside / scale);
                let dark = match (module(x), module(y)) {
                    (Some(x), Some(y)) => self.is_dark(x, y),
                    _ => false,
                };
                if let Some(byte) = row.get_mut((x / 8) as usize).filter(|_| dark) {
                    *byte &= !(0x80 >> (x % 8));
                }
            }
            image.extend(row);
        }
        encode(pixels, &image).map(Ok)
    }
}

fn encode(pixels: u32, image: &[u8]) -> Result<Vec<u8>, Fault> {
    let failed = |error| Fault::unavailable("write a PNG", error);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixels, pixels);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(image).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}
