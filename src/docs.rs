//! Guides: what trainyard is made of, how to use it, and how to add to it.
//!
//! They are the Markdown files of the folder `docs`. Their code in Rust is compiled as tests of the
//! documentation, and run where it needs no file or cluster; of a function with
//! [`trainyard::test`](crate::test) only the attribute is.

#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}

#[doc = include_str!("../docs/tutorial.md")]
pub mod tutorial {}

#[doc = include_str!("../docs/scenarios.md")]
pub mod scenarios {}

#[doc = include_str!("../docs/deploying.md")]
pub mod deploying {}

#[doc = include_str!("../docs/validation.md")]
pub mod validation {}

#[doc = include_str!("../docs/measured.md")]
pub mod measured {}

#[doc = include_str!("../docs/notebook.md")]
pub mod notebook {}

#[doc = include_str!("../docs/coming_from_tensorflow.md")]
pub mod coming_from_tensorflow {}

#[doc = include_str!("../docs/extending.md")]
pub mod extending {}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("../docs/faults_as_run.md")]
pub mod faults_as_run {}

#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
