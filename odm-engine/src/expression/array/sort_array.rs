//! `$sortArray`: the elements of an array in order, by themselves or by their fields.
//!
//! ```text
//! { "$sortArray": { "input": [2, 3, 1], "sortBy": -1 } } → [3, 2, 1]
//! { "$sortArray": { "input": [{ "a": 2 }, { "a": 1 }], "sortBy": { "a": 1 } } } → [{ "a": 1 }, { "a": 2 }]
//! { "$sortArray": { "input": null, "sortBy": 1 } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::sort::{ElementOrder, OrderFault};
use crate::{Error, Result, value};

#[derive(Debug)]
struct SortArray {
    input: Expression,
    order: ElementOrder,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(&["input", "sortBy"], 2942500, 2942501)?;
    let input = arguments.required("input", 2942502)?;
    let order = ElementOrder::parse(arguments.need("sortBy", 2942503)?).map_err(|fault| {
        let code = match fault {
            OrderFault::Fields => 2942505,
            OrderFault::Number => 2942506,
            OrderFault::Type => 2942507,
        };
        Error::server(code, fault.message())
    })?;
    call.fold(SortArray { input, order })
}

impl Operands for SortArray {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl Operator for SortArray {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let array = input.array().ok_or_else(|| {
            let found = input.type_name();
            let message = format!("the input of $sortArray is an array, not {found}");
            Error::server(2942504, message)
        })?;
        let mut items: Vec<_> = value::items(array).collect();
        items.sort_by(|a, b| self.order.compare(*a, *b));
        Ok(items.into_iter().collect::<RawArrayBuf>().into())
    }
}
