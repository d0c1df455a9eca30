//! From a value to an [`Expression`].

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};

use super::path::FieldPath;
use super::{Call, Expression, Names, categories};
use crate::{Error, Result, value};

pub(super) fn expression(value: RawBsonRef<'_>, names: &Names<'_>) -> Result<Expression> {
    match value {
        RawBsonRef::String(text) if text.starts_with('$') => {
            Ok(Expression::Path(FieldPath::parse(text, names)?))
        }
        RawBsonRef::Document(document) => object(document, names),
        RawBsonRef::Array(array) => {
            let elements: Vec<_> = value::items(array)
                .map(|element| Expression::parse(element, names))
                .collect::<Result<_>>()?;
            Ok(fold(Expression::Array(elements)))
        }
        value => Ok(Expression::Constant(Some(value.into()))),
    }
}

/// An operator, if the first field is called like one, or a document of expressions.
fn object(document: &RawDocument, names: &Names<'_>) -> Result<Expression> {
    let mut all = value::fields(document);
    if let Some((name, operand)) = all.next()
        && name.starts_with('$')
    {
        if all.next().is_some() {
            let message = format!(
                "an operator stands alone in its document; '{name}' has other fields beside it"
            );
            return Err(Error::server(15983, message));
        }
        return operator(name, operand, names);
    }
    let mut fields = Vec::new();
    for (name, value) in value::fields(document) {
        check_field_name(name)?;
        let own = CString::try_from(name)?;
        if fields.iter().any(|(other, _)| *other == own) {
            let message = format!("the field '{name}' is computed twice");
            return Err(Error::server(16406, message));
        }
        fields.push((own, Expression::parse(value, names)?));
    }
    Ok(fold(Expression::Object(fields)))
}

/// Refuses what a computed field cannot be called.
///
/// # Errors
/// The name is empty, starts with `$` or has a dot in it.
fn check_field_name(name: &str) -> Result<()> {
    let (code, why) = if name.is_empty() {
        (15998, "is empty")
    } else if name.starts_with('$') {
        (16410, "starts with '$'")
    } else if name.contains('.') {
        (16412, "has a dot in it")
    } else {
        return Ok(());
    };
    let message = format!("'{name}' cannot be the name of a computed field: it {why}");
    Err(Error::server(code, message))
}

fn operator(name: &str, operand: RawBsonRef<'_>, names: &Names<'_>) -> Result<Expression> {
    match categories::find(name) {
        Some(parse) => parse(&Call {
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

/// Makes a constant of a document or an array of constants.
fn fold(expression: Expression) -> Expression {
    let constant = match &expression {
        Expression::Object(fields) => {
            let all = fields
                .iter()
                .map(|(name, field)| Some((name, field.constant()?)));
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
            let all = elements.iter().map(Expression::constant);
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
