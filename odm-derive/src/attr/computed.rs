//! What is computed from other fields: `#[computed(sum(lines.price * lines.quantity))]`.

use quote::ToTokens;
use syn::{
    Attribute, BinOp, Expr, ExprCall, Ident, Lit, LitFloat, LitInt, Member, Path, UnOp,
    punctuated::Punctuated,
};

use super::named;
use crate::ctxt::Ctxt;

/// How a field is computed.
pub(crate) struct Computed {
    /// The attribute, for errors.
    pub(crate) path: Path,
    pub(crate) formula: Formula,
}

/// What is computed.
pub(crate) enum Formula {
    /// The number at a place: `price`, `lines.price`.
    Value(Vec<Ident>),
    Whole(LitInt),
    Float(LitFloat),
    /// `len(lines)`.
    Len(Vec<Ident>),
    /// `a + b`, `a - b`, `a * b`.
    Both(Operator, Box<[Formula; 2]>),
    /// `-a`.
    Negative(Box<Formula>),
    /// `sum(a, b)`: each of them, or its sum over the elements of an array.
    Sum(Vec<Formula>),
}

#[derive(Clone, Copy)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
}

const KNOWN: &str =
    "what is computed is made of fields, numbers, `+`, `-`, `*`, `sum(…)` and `len(…)`";

impl Computed {
    /// What the attribute of a field says.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut said = named(attrs, "computed");
        let attr = said.next()?;
        if let Some(second) = said.next() {
            ctxt.error(
                second,
                "a field is computed in one way: leave one of them out",
            );
            return None;
        }
        let is_empty = attr
            .meta
            .require_list()
            .is_ok_and(|list| list.tokens.is_empty());
        if attr.meta.require_list().is_err() || is_empty {
            ctxt.error(
                attr,
                "computed from what? Say `#[computed(width * height)]`, `#[computed(sum(lines.price))]` or `#[computed(len(lines))]`",
            );
            return None;
        }
        let parsed = attr.parse_args_with(Punctuated::<Expr, syn::Token![,]>::parse_terminated);
        let all = ctxt.ok(parsed.map_err(|error| syn::Error::new(error.span(), KNOWN)))?;
        let mut all = all.iter();
        let expression = all.next()?;
        if let Some(second) = all.next() {
            ctxt.error(second, "a field is one number: `sum(a, b)`, or `a + b`");
            return None;
        }
        Some(Self {
            path: attr.path().clone(),
            formula: ctxt.ok(formula(expression))?,
        })
    }

    /// Refuses what the attributes of a field say where nothing computes it.
    pub(crate) fn refuse(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in named(attrs, "computed") {
            ctxt.error(
                attr,
                format!("{place} has no computed fields yet: compute in a field of the document, `#[computed(sum(lines.price))]`"),
            );
        }
    }
}

impl Formula {
    /// The places that it looks at, each with whether it counts what is there.
    pub(crate) fn places(&self) -> Vec<&[Ident]> {
        match self {
            Self::Value(place) | Self::Len(place) => vec![place],
            Self::Whole(_) | Self::Float(_) => Vec::new(),
            Self::Both(_, both) => both.iter().flat_map(Self::places).collect(),
            Self::Negative(of) => of.places(),
            Self::Sum(all) => all.iter().flat_map(Self::places).collect(),
        }
    }
}

fn formula(expression: &Expr) -> syn::Result<Formula> {
    match expression {
        Expr::Paren(paren) => formula(&paren.expr),
        Expr::Group(group) => formula(&group.expr),
        Expr::Binary(binary) => {
            let operator = match binary.op {
                BinOp::Add(_) => Operator::Add,
                BinOp::Sub(_) => Operator::Subtract,
                BinOp::Mul(_) => Operator::Multiply,
                BinOp::Div(_) => {
                    return Err(wrong(
                        binary.op,
                        "there is no division: a zero would make every write fail; divide when reading",
                    ));
                }
                _ => return Err(wrong(binary.op, KNOWN)),
            };
            let both = [formula(&binary.left)?, formula(&binary.right)?];
            Ok(Formula::Both(operator, Box::new(both)))
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Ok(Formula::Negative(Box::new(formula(&unary.expr)?)))
        }
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => {
                super::number::<i64>(number, "a number here is an `i64`, or a float: `1e20`")?;
                Ok(Formula::Whole(number.clone()))
            }
            Lit::Float(number) => Ok(Formula::Float(number.clone())),
            other => Err(wrong(other, KNOWN)),
        },
        Expr::Path(_) | Expr::Field(_) => Ok(Formula::Value(place(expression)?)),
        Expr::Call(call) => function(call),
        other => Err(wrong(other, KNOWN)),
    }
}

/// `sum(…)` and `len(…)`.
fn function(call: &ExprCall) -> syn::Result<Formula> {
    let name = match &*call.func {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    match (name.as_deref(), call.args.len()) {
        (Some("sum" | "len"), 0) => Err(wrong(
            call,
            "of what? Say `sum(lines.price)`, or `len(lines)`",
        )),
        (Some("sum"), _) => {
            let all = call.args.iter().map(formula);
            Ok(Formula::Sum(all.collect::<syn::Result<_>>()?))
        }
        (Some("len"), 1) => Ok(Formula::Len(place(&call.args[0])?)),
        (Some("len"), _) => Err(wrong(
            &call.args[1],
            "`len(…)` is of one array or map: `len(a) + len(b)`",
        )),
        _ => Err(wrong(&call.func, KNOWN)),
    }
}

/// `lines.price`.
fn place(expression: &Expr) -> syn::Result<Vec<Ident>> {
    match expression {
        Expr::Path(path) => match path.path.get_ident() {
            Some(ident) => Ok(vec![ident.clone()]),
            None => Err(wrong(
                path,
                "a field is named: `price`, or `lines.price` for one inside",
            )),
        },
        Expr::Field(field) => {
            let mut names = place(&field.base)?;
            match &field.member {
                Member::Named(name) => names.push(name.clone()),
                other => return Err(wrong(other, "a field has a name here")),
            }
            Ok(names)
        }
        other => Err(wrong(
            other,
            "a field is named here: `lines`, or `cart.lines` for one inside",
        )),
    }
}

fn wrong(at: impl ToTokens, message: &str) -> syn::Error {
    syn::Error::new_spanned(at, message)
}
