//! Computed fields: `#[computed(sum(lines.price * lines.quantity))]`, `#[computed(lower(name))]`.

use quote::ToTokens;
use syn::{
    Attribute, BinOp, Expr, ExprCall, Ident, Lit, LitFloat, LitInt, LitStr, Member, Path, UnOp,
    punctuated::Punctuated,
};

use super::attrs_named;
use crate::ctxt::Ctxt;

/// The attribute of a computed field.
pub(crate) struct ComputedAttr {
    /// The path of the attribute, for error messages.
    pub(crate) path: Path,
    pub(crate) formula: Formula,
    /// The value of the field if a divisor is 0. Always present if the formula divides.
    pub(crate) default: Option<Formula>,
}

/// The formula of a computed field.
pub(crate) enum Formula {
    /// The value at a path: `price`, `lines.price`.
    Value(Vec<Ident>),
    Whole(LitInt),
    Float(LitFloat),
    Text(LitStr),
    /// `len(lines)`.
    Len(Vec<Ident>),
    /// `a + b`, `a - b`, `a * b`, `a / b`.
    Binary(ArithmeticOp, Box<[Formula; 2]>),
    /// `-a`.
    Negative(Box<Formula>),
    /// `sum(a, b)`: adds the terms, where a term inside an array is summed over its elements.
    Sum(Vec<Formula>),
    /// `lower(a)`.
    Lower(Box<Formula>),
    /// `trim(a)`.
    Trim(Box<Formula>),
    /// `concat(a, b)`.
    Concat(Vec<Formula>),
}

#[derive(Clone, Copy)]
pub(crate) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
}

const FORMULA_SYNTAX: &str = "a formula consists of fields, numbers, `+`, `-`, `*`, `/`, `sum(…)` and `len(…)`, or of texts, `lower(…)`, `trim(…)` and `concat(…)`";

const DEFAULT_USAGE: &str = "`default` needs a number, the value of the field if a divisor is 0: `#[computed(stars / reviews, default = 0.0)]`";

impl ComputedAttr {
    /// Parses the `#[computed(…)]` attribute of a field.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut attributes = attrs_named(attrs, "computed");
        let attr = attributes.next()?;
        if let Some(second) = attributes.next() {
            ctxt.error_at(
                second,
                "a field can have only one `#[computed(…)]`: remove this one",
            );
            return None;
        }
        let is_empty = attr
            .meta
            .require_list()
            .is_ok_and(|list| list.tokens.is_empty());
        if attr.meta.require_list().is_err() || is_empty {
            ctxt.error_at(
                attr,
                "missing formula: write `#[computed(width * height)]`, `#[computed(sum(lines.price))]` or \
                 `#[computed(len(lines))]`",
            );
            return None;
        }
        let parsed = attr.parse_args_with(Punctuated::<Expr, syn::Token![,]>::parse_terminated);
        let all = ctxt
            .ok_or_report(parsed.map_err(|error| syn::Error::new(error.span(), FORMULA_SYNTAX)))?;
        let mut all = all.iter();
        let expression = all.next()?;
        let second = all.next();
        let default = second.map(parse_default);
        let default = ctxt.ok_or_report(default.transpose())?;
        if let Some(third) = all.next() {
            ctxt.error_at(third, ONE_FORMULA);
            return None;
        }
        let formula = ctxt.ok_or_report(parse_formula(expression))?;
        match (formula.divides(), second) {
            (true, None) => ctxt.error_at(
                expression,
                "missing value for a zero divisor: write `#[computed(a / b, default = 0.0)]`",
            ),
            (false, Some(second)) => {
                ctxt.error_at(second, "the formula has no division: remove `default`");
            }
            _ => {}
        }
        Some(Self {
            path: attr.path().clone(),
            formula,
            default,
        })
    }

    /// Reports the attribute in places that do not support computed fields yet.
    pub(crate) fn ensure_absent(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in attrs_named(attrs, "computed") {
            ctxt.error_at(
                attr,
                format!(
                    "{place} cannot have computed fields yet: move the field to the document, \
                     `#[computed(sum(lines.price))]`"
                ),
            );
        }
    }
}

impl Formula {
    /// Returns the paths of all fields in the formula.
    pub(crate) fn field_paths(&self) -> Vec<&[Ident]> {
        match self {
            Self::Value(place) | Self::Len(place) => vec![place],
            Self::Whole(_) | Self::Float(_) | Self::Text(_) => Vec::new(),
            _ => self.operands().iter().flat_map(Self::field_paths).collect(),
        }
    }

    /// Returns the formulas that this formula combines.
    pub(crate) fn operands(&self) -> &[Self] {
        match self {
            Self::Value(_) | Self::Len(_) | Self::Whole(_) | Self::Float(_) | Self::Text(_) => &[],
            Self::Binary(_, both) => &**both,
            Self::Negative(operand) | Self::Lower(operand) | Self::Trim(operand) => {
                std::slice::from_ref(operand)
            }
            Self::Sum(all) | Self::Concat(all) => all,
        }
    }

    fn divides(&self) -> bool {
        matches!(self, Self::Binary(ArithmeticOp::Divide, _))
            || self.operands().iter().any(Self::divides)
    }
}

fn parse_formula(expression: &Expr) -> syn::Result<Formula> {
    match expression {
        Expr::Paren(paren) => parse_formula(&paren.expr),
        Expr::Group(group) => parse_formula(&group.expr),
        Expr::Binary(binary) => {
            let operator = match binary.op {
                BinOp::Add(_) => ArithmeticOp::Add,
                BinOp::Sub(_) => ArithmeticOp::Subtract,
                BinOp::Mul(_) => ArithmeticOp::Multiply,
                BinOp::Div(_) => ArithmeticOp::Divide,
                _ => return Err(error_at(binary.op, FORMULA_SYNTAX)),
            };
            let both = [parse_formula(&binary.left)?, parse_formula(&binary.right)?];
            Ok(Formula::Binary(operator, Box::new(both)))
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Ok(Formula::Negative(Box::new(parse_formula(&unary.expr)?)))
        }
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => {
                super::parse_number::<i64>(
                    number,
                    "the integer is out of range for an `i64`: write a float, `1e20`",
                )?;
                Ok(Formula::Whole(number.clone()))
            }
            Lit::Float(number) => Ok(Formula::Float(number.clone())),
            Lit::Str(text) => Ok(Formula::Text(text.clone())),
            other => Err(error_at(other, FORMULA_SYNTAX)),
        },
        Expr::Path(_) | Expr::Field(_) => Ok(Formula::Value(parse_field_path(expression)?)),
        Expr::Call(call) => parse_call(call),
        other => Err(error_at(other, FORMULA_SYNTAX)),
    }
}

const ONE_FORMULA: &str = "a computed field has only one formula: write `sum(a, b)` or `a + b`";

/// Parses `default = 0.0`.
fn parse_default(setting: &Expr) -> syn::Result<Formula> {
    let Expr::Assign(assign) = setting else {
        return Err(error_at(setting, ONE_FORMULA));
    };
    if !matches!(&*assign.left, Expr::Path(path) if path.path.is_ident("default")) {
        return Err(error_at(&assign.left, DEFAULT_USAGE));
    }
    let number = parse_formula(&assign.right)?;
    let literal = match &number {
        Formula::Negative(operand) => operand,
        number => number,
    };
    match literal {
        Formula::Whole(_) | Formula::Float(_) => Ok(number),
        _ => Err(error_at(&assign.right, DEFAULT_USAGE)),
    }
}

/// Parses the function calls of a formula.
fn parse_call(call: &ExprCall) -> syn::Result<Formula> {
    let name = match &*call.func {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    match (name.as_deref(), call.args.len()) {
        (Some("sum" | "len"), 0) => Err(error_at(
            call,
            "missing argument: write `sum(lines.price)` or `len(lines)`",
        )),
        (Some("lower" | "trim" | "concat"), 0) => Err(error_at(
            call,
            "missing argument: write `lower(name)`, `trim(name)` or `concat(first, last)`",
        )),
        (Some("concat"), _) => {
            let all = call.args.iter().map(parse_formula);
            Ok(Formula::Concat(all.collect::<syn::Result<_>>()?))
        }
        (Some("lower"), 1) => Ok(Formula::Lower(Box::new(parse_formula(&call.args[0])?))),
        (Some("trim"), 1) => Ok(Formula::Trim(Box::new(parse_formula(&call.args[0])?))),
        (Some("lower" | "trim"), _) => Err(error_at(
            &call.args[1],
            "the function takes one text: write `lower(concat(first, last))`",
        )),
        (Some("sum"), _) => {
            let all = call.args.iter().map(parse_formula);
            Ok(Formula::Sum(all.collect::<syn::Result<_>>()?))
        }
        (Some("len"), 1) => Ok(Formula::Len(parse_field_path(&call.args[0])?)),
        (Some("len"), _) => Err(error_at(
            &call.args[1],
            "`len(…)` takes one array or map: write `len(a) + len(b)`",
        )),
        _ => Err(error_at(&call.func, FORMULA_SYNTAX)),
    }
}

/// Parses `lines.price`.
fn parse_field_path(expression: &Expr) -> syn::Result<Vec<Ident>> {
    match expression {
        Expr::Path(path) => match path.path.get_ident() {
            Some(ident) => Ok(vec![ident.clone()]),
            None => Err(error_at(
                path,
                "expected the name of a field: `price`, or `lines.price` for a field of an embedded struct",
            )),
        },
        Expr::Field(field) => {
            let mut names = parse_field_path(&field.base)?;
            match &field.member {
                Member::Named(name) => names.push(name.clone()),
                other => {
                    return Err(error_at(
                        other,
                        "expected the name of a field, not an index",
                    ));
                }
            }
            Ok(names)
        }
        other => Err(error_at(
            other,
            "expected a field: `lines`, or `cart.lines` for a field of an embedded struct",
        )),
    }
}

fn error_at(at: impl ToTokens, message: &str) -> syn::Error {
    syn::Error::new_spanned(at, message)
}
