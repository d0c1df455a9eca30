//! Parsing of a BSON value into an [`Expression`].

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};

use super::path::FieldPath;
use super::{Expression, OperatorCall, VisibleVariables, categories};
use crate::{Error, Result, value};

pub(super) fn parse_expression(
    value: RawBsonRef<'_>,
    names: &VisibleVariables<'_>,
) -> Result<Expression> {
    match value {
        RawBsonRef::String(text) if text.starts_with('$') => {
            Ok(Expression::Path(FieldPath::parse(text, names)?))
        }
        RawBsonRef::Document(document) => parse_object(document, names),
        RawBsonRef::Array(array) => {
            let elements: Vec<_> = value::items(array)
                .map(|element| Expression::parse(element, names))
                .collect::<Result<_>>()?;
            Ok(fold_constants(Expression::Array(elements)))
        }
        value => Ok(Expression::Constant(Some(value.into()))),
    }
}

/// Parses an operator if the first field has an operator's name, else a document of expressions.
fn parse_object(document: &RawDocument, names: &VisibleVariables<'_>) -> Result<Expression> {
    let mut all = value::fields(document);
    if let Some((name, operand)) = all.next()
        && name.starts_with('$')
    {
        if all.next().is_some() {
            let message = format!(
                "an operator must be the only field of its document, but '{name}' has other fields beside it"
            );
            return Err(Error::with_server_code(15983, message));
        }
        return parse_operator(name, operand, names);
    }
    let mut fields = Vec::new();
    for (name, value) in value::fields(document) {
        check_field_name(name)?;
        let key = CString::try_from(name)?;
        if fields.iter().any(|(other, _)| *other == key) {
            let message = format!("the field '{name}' is computed twice");
            return Err(Error::with_server_code(16406, message));
        }
        fields.push((key, Expression::parse(value, names)?));
    }
    Ok(fold_constants(Expression::Object(fields)))
}

/// Checks the name of a computed field.
///
/// # Errors
/// The name is empty, starts with `$` or contains a dot.
fn check_field_name(name: &str) -> Result<()> {
    let (code, reason) = if name.is_empty() {
        (15998, "is empty")
    } else if name.starts_with('$') {
        (16410, "starts with '$'")
    } else if name.contains('.') {
        (16412, "has a dot in it")
    } else {
        return Ok(());
    };
    let message = format!("'{name}' cannot be the name of a computed field: it {reason}");
    Err(Error::with_server_code(code, message))
}

fn parse_operator(
    name: &str,
    operand: RawBsonRef<'_>,
    names: &VisibleVariables<'_>,
) -> Result<Expression> {
    match categories::find_parser(name) {
        Some(parse) => parse(&OperatorCall {
            name,
            operand,
            names,
        }),
        None => Err(Error::unknown_operator(
            168,
            format!("unrecognized expression '{name}'"),
        )),
    }
}

/// Turns a document or an array of constants into a constant.
fn fold_constants(expression: Expression) -> Expression {
    let constant = match &expression {
        Expression::Object(fields) => {
            let all = fields
                .iter()
                .map(|(name, field)| Some((name, field.as_constant()?)));
            all.collect::<Option<Vec<_>>>().map(|fields| {
                let mut document = bson::RawDocumentBuf::new();
                for (name, value) in &fields {
                    if let Some(value) = value.as_bson() {
                        document.append(name.as_ref(), value);
                    }
                }
                document.into()
            })
        }
        Expression::Array(elements) => {
            let all = elements.iter().map(Expression::as_constant);
            all.collect::<Option<Vec<_>>>().map(|elements| {
                let array: bson::RawArrayBuf = elements.iter().map(super::Value::or_null).collect();
                array.into()
            })
        }
        _ => None,
    };
    match constant {
        Some(value) => Expression::Constant(Some(value)),
        None => expression,
    }
}
