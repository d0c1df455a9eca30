//! Named arguments of an operator: `{ input: …, as: …, in: … }`.

use bson::RawBsonRef;

use super::OperatorCall;
use crate::expression::Expression;
use crate::{Error, Result, value};

/// A document of named arguments, all known to the operator.
#[derive(Debug)]
pub(in crate::expression) struct NamedArguments<'c> {
    call: &'c OperatorCall<'c>,
    /// The known names with the given arguments.
    given: Vec<(&'static str, Option<RawBsonRef<'c>>)>,
}

impl OperatorCall<'_> {
    /// Reads the operand as a document of the arguments in `known`.
    ///
    /// # Errors
    /// The operand is not a document (code `no_document`), or has an unknown argument (code
    /// `unknown`).
    pub(in crate::expression) fn named_arguments(
        &self,
        known: &[&'static str],
        no_document: i32,
        unknown: i32,
    ) -> Result<NamedArguments<'_>> {
        let mut named_arguments: Vec<_> = known.iter().map(|name| (*name, None)).collect();
        for (name, argument) in value::fields(self.argument_document(no_document)?) {
            let Some((_, place)) = named_arguments.iter_mut().find(|(known, _)| *known == name)
            else {
                let (operator, known) = (self.name, known.join("', '"));
                let message = format!("{operator} has no argument '{name}'; known are '{known}'");
                return Err(Error::with_server_code(unknown, message));
            };
            *place = Some(argument);
        }
        Ok(NamedArguments {
            call: self,
            given: named_arguments,
        })
    }
}

impl<'c> NamedArguments<'c> {
    /// Returns an argument before parsing.
    pub(in crate::expression) fn get(&self, name: &str) -> Option<RawBsonRef<'c>> {
        let mut named_arguments = self.given.iter();
        named_arguments.find(|(known, _)| *known == name)?.1
    }

    /// Returns a required argument before parsing.
    ///
    /// # Errors
    /// The argument is missing. `code` is the operator's error code for that.
    pub(in crate::expression) fn required_value(
        &self,
        name: &str,
        code: i32,
    ) -> Result<RawBsonRef<'c>> {
        self.get(name).ok_or_else(|| {
            let operator = self.call.name;
            Error::with_server_code(code, format!("{operator} needs the argument '{name}'"))
        })
    }

    /// Parses a required argument.
    ///
    /// # Errors
    /// The argument is missing (`code`) or cannot be parsed.
    pub(in crate::expression) fn required_expression(
        &self,
        name: &str,
        code: i32,
    ) -> Result<Expression> {
        self.call.parse_operand(self.required_value(name, code)?)
    }

    /// Parses an optional argument.
    ///
    /// # Errors
    /// The argument cannot be parsed.
    pub(in crate::expression) fn optional_expression(
        &self,
        name: &str,
    ) -> Result<Option<Expression>> {
        self.get(name)
            .map(|argument| self.call.parse_operand(argument))
            .transpose()
    }

    /// Parses an optional argument, or returns `default` as a constant.
    ///
    /// # Errors
    /// The argument cannot be parsed.
    pub(in crate::expression) fn expression_or(
        &self,
        name: &str,
        default: RawBsonRef<'_>,
    ) -> Result<Expression> {
        Ok(self
            .optional_expression(name)?
            .unwrap_or_else(|| Expression::Constant(Some(default.into()))))
    }
}
