//! Short links: destinations, codes, and what counts as a click.
