//! Several pieces of work at once, on the one thread that there is.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use crate::ports::Later;

/// Runs all of `works`, at most `at_once` of them at a time, and gives their results in the order
/// in which the works were given.
pub async fn all<T>(works: Vec<Later<'_, T>>, at_once: usize) -> Vec<T> {
    let mut results: Vec<Option<T>> = works.iter().map(|_| None).collect();
    let mut waiting: VecDeque<_> = works.into_iter().enumerate().collect();
    let mut running = Vec::new();
    poll_fn(|context| {
        loop {
            while running.len() < at_once.max(1) {
                let Some(next) = waiting.pop_front() else {
                    break;
                };
                running.push(next);
            }
            let before = running.len();
            running.retain_mut(|(index, work)| match work.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    if let Some(slot) = results.get_mut(*index) {
                        *slot = Some(result);
                    }
                    false
                }
            });
            if running.is_empty() && waiting.is_empty() {
                return Poll::Ready(());
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::native::executor::block_on;

    #[test]
    fn never_more_than_asked_for_run_at_once_and_results_keep_their_order() {
        let (running, most) = (Rc::new(Cell::new(0_u32)), Rc::new(Cell::new(0_u32)));
        let works: Vec<Later<'static, u32>> = (0..7_u32)
            .map(|number| -> Later<'static, u32> {
                let (running, most) = (Rc::clone(&running), Rc::clone(&most));
                Box::pin(async move {
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                    let mut polls = 8 - number;
                    poll_fn(|_| {
                        polls -= 1;
                        if polls == 0 {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                    .await;
                    running.set(running.get() - 1);
                    number
                })
            })
            .collect();
        assert_eq!(block_on(all(works, 3)), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(most.get(), 3);
    }
}
