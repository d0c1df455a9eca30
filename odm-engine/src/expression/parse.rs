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
                .map(|element| expression(element, names))
                .collect::<Result<_>>()?;
            Ok(fold(Expression::Array(elements)))
        }
        value => Ok(Expression::Constant(Some(value.into()))),
    }
}

/// An operator or a document of expressions.
fn object(document: &RawDocument, names: &Names<'_>) -> Result<Expression> {
    let mut fields = Vec::new();
    for (name, value) in value::fields(document) {
        if name.starts_with('$') {
            if value::fields(document).nth(1).is_some() {
                let message = format!(
                    "an operator stands alone in its document; '{name}' has other fields beside it"
                );
                return Err(Error::server(15983, message));
            }
            return operator(name, value, names);
        }
        if name.contains('.') {
            let message =
                format!("'{name}' cannot be computed: the name of a field has no dot in it");
            return Err(Error::server(16412, message));
        }
        if name.is_empty() {
            return Err(Error::server(
                40352,
                "the name of a computed field is empty",
            ));
        }
        let own = CString::try_from(name)?;
        if fields.iter().any(|(other, _)| *other == own) {
            let message = format!("the field '{name}' is computed twice");
            return Err(Error::server(16406, message));
        }
        fields.push((own, expression(value, names)?));
    }
    Ok(fold(Expression::Object(fields)))
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
