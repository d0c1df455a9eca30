//! The rules of the crate `garde`.

use bson::RawBson;
use garde::Validate;

use super::Violation;
use crate::{decode, document::Stored};

/// A type whose rules the crate `garde` checks, without a context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no rules that a write could check",
    label = "`validate` is said here",
    note = "derive them: `#[derive(garde::Validate)]`, from version 0.23 of `garde`, and without `#[garde(context(…))]`: a write has none to give"
)]
pub trait Validated {
    /// All that is wrong, by paths in Rust.
    fn broken(&self) -> Vec<Violation>;
}

#[diagnostic::do_not_recommend]
impl<T: Validate<Context = ()>> Validated for T {
    fn broken(&self) -> Vec<Violation> {
        let Err(report) = self.validate() else {
            return Vec::new();
        };
        let broken = report.iter();
        broken
            .map(|(path, error)| (path.to_string(), error.to_string()))
            .collect()
    }
}

/// All that is wrong with a value.
pub fn broken<T: Validated>(value: &T) -> Vec<Violation> {
    value.broken()
}

/// All that is wrong with a stored value of a field, which a struct of it alone has the rules of; none if it cannot be read.
pub fn checked<R: Validated, T: Stored>(
    value: &RawBson,
    rule: impl FnOnce(T) -> R,
) -> Option<Vec<Violation>> {
    let value = decode::value(value).ok()?;
    Some(rule(value).broken())
}
