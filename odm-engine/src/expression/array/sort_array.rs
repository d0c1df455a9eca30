//! `$sortArray`: the elements of an array sorted by value or by their fields.
//!
//! ```text
//! { "$sortArray": { "input": [2, 3, 1], "sortBy": -1 } } → [3, 2, 1]
//! { "$sortArray": { "input": [{ "a": 2 }, { "a": 1 }], "sortBy": { "a": 1 } } } → [{ "a": 1 }, { "a": 2 }]
//! { "$sortArray": { "input": null, "sortBy": 1 } } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::{FoldableOperator, OperatorCall};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::sort::{ElementOrder, OrderFault};
use crate::{Error, Result, value};

#[derive(Debug)]
struct SortArray {
    input: Expression,
    order: ElementOrder,
}

pub(super) fn parse_sort_array(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(&["input", "sortBy"], 2942500, 2942501)?;
    let input = arguments.required_expression("input", 2942502)?;
    let order = ElementOrder::parse(arguments.required_value("sortBy", 2942503)?, call.order())
        .map_err(|fault| {
            let code = match fault {
                OrderFault::Fields => 2942505,
                OrderFault::Number => 2942506,
                OrderFault::Type => 2942507,
            };
            Error::with_server_code(code, fault.message())
        })?;
    call.fold_constant(SortArray { input, order })
}

impl FoldableOperator for SortArray {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl ExpressionOperator for SortArray {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let array = input.as_array().ok_or_else(|| {
            let type_name = input.type_name();
            let message = format!("the input of $sortArray must be an array, not {type_name}");
            Error::with_server_code(2942504, message)
        })?;
        let mut items: Vec<_> = value::items(array).collect();
        items.sort_by(|a, b| self.order.compare(*a, *b));
        Ok(items.into_iter().collect::<RawArrayBuf>().into())
    }
}
