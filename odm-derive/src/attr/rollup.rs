//! Rollups: `#[count(…)]`, `#[sum(…)]`, `#[avg(…)]`, `#[min(…)]`, `#[max(…)]` and `#[latest(…)]`, computed from child documents.

use quote::ToTokens;
use syn::{
    Attribute, Expr, Ident, LitInt, Meta, Path, Token, ext::IdentExt, parenthesized,
    parse::ParseStream, punctuated::Punctuated, token::Paren,
};

use super::{
    SeenSettings, attrs_named, expect_end, parse_number, parse_value, parse_value_with,
    unknown_setting,
};
use crate::ctxt::Ctxt;

/// A rollup field of a parent document.
pub(crate) struct RollupAttr {
    /// The child model.
    pub(crate) of: Path,
    /// The reference from the child to the parent.
    pub(crate) reference: Ident,
    /// The conditions on children. All of them must hold.
    pub(crate) when: Vec<RollupCondition>,
    pub(crate) kind: RollupKind,
}

/// A condition on children, such as `total >= 100`.
pub(crate) struct RollupCondition {
    pub(crate) path: Vec<Ident>,
    pub(crate) comparison: Comparison,
    pub(crate) value: Expr,
}

/// The operator of a condition.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Lte,
    Gt,
    Gte,
}

/// The kind of a rollup.
pub(crate) enum RollupKind {
    /// The number of children.
    Count,
    /// The sum of a field of the children.
    Sum(Vec<Ident>),
    /// The average of a field of the children.
    Average(Vec<Ident>),
    /// The smallest or the greatest value of a field of the children.
    Extreme(Extreme, Vec<Ident>),
    /// Excerpts of the children with the greatest values of a field.
    Latest { max: LitInt, by: Vec<Ident> },
}

/// Whether a rollup stores the minimum or the maximum.
#[derive(Clone, Copy)]
pub(crate) enum Extreme {
    Min,
    Max,
}

impl RollupKind {
    /// Whether the field is computed from the stored state of the rollup.
    pub(crate) fn is_computed(&self) -> bool {
        match self {
            Self::Average(_) | Self::Extreme(..) => true,
            Self::Count | Self::Sum(_) | Self::Latest { .. } => false,
        }
    }
}

/// The attributes of rollups.
pub(crate) const ROLLUP_ATTRIBUTES: [&str; 6] = ["count", "sum", "avg", "min", "max", "latest"];

pub(crate) const ONE_DERIVED_VALUE: &str = "a field can have only one of `#[count]`, `#[sum]`, `#[avg]`, `#[min]`, `#[max]`, `#[latest]`, `#[denormalize]` and `#[snapshot]`";

fn rollup_attrs(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    ROLLUP_ATTRIBUTES
        .iter()
        .flat_map(|name| attrs_named(attrs, name))
}

/// Returns the maximum length of a field with `#[latest(N, …)]`.
pub(crate) fn latest_max(attrs: &[Attribute]) -> Option<LitInt> {
    let attr = attrs_named(attrs, "latest").next()?;
    let settings = attr.parse_args_with(RollupSettings::parse);
    // `RollupAttr::parse` reports errors in the attribute.
    settings
        .map_or_else(|_| None, |settings| settings.max)
        .or_else(|| Some(syn::parse_quote!(1)))
}

impl RollupAttr {
    /// Parses the rollup attribute of a field.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut attributes = rollup_attrs(attrs);
        let attr = attributes.next()?;
        if let Some(second) = attributes.next() {
            ctxt.error_at(second, ONE_DERIVED_VALUE);
            return None;
        }
        let parsed = match attr.meta {
            Meta::List(_) => attr.parse_args_with(RollupSettings::parse),
            // `into_rollup` reports the missing settings.
            Meta::Path(_) | Meta::NameValue(_) => Ok(RollupSettings::default()),
        };
        let settings = ctxt.ok_or_report(parsed)?;
        ctxt.ok_or_report(settings.into_rollup(attr))
    }

    /// Reports rollup attributes in places that do not support them.
    pub(crate) fn ensure_absent(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in rollup_attrs(attrs) {
            ctxt.error_at(
                attr,
                format!("{place} cannot have rollups: move the field to the parent document"),
            );
        }
    }
}

/// The settings of a rollup, in any order.
#[derive(Default)]
struct RollupSettings {
    max: Option<LitInt>,
    of: Option<Path>,
    value: Option<Vec<Ident>>,
    by: Option<Vec<Ident>>,
    when: Vec<RollupCondition>,
}

const ACCEPTED_SETTINGS: &str = "a rollup accepts `of = Model::reference`, `when(field = value, …)`, for `sum`, `avg`, `min` and `max` \
     `value = field`, and for `latest` a number and `by = field`";

const ROLLUP_OF_USAGE: &str =
    "missing child model: write `of = Model::reference`, with the child's reference to this model";
const ROLLUP_VALUE_USAGE: &str = "`value` needs the name of a field: `value = likes`";
const LATEST_LENGTH_USAGE: &str = "the maximum length must be an integer of at least 1: `#[latest(100, of = Model::reference, by = field)]`";
const LATEST_BY_USAGE: &str = "`by` needs the name of the sorted field: `by = at`";
const ROLLUP_WHEN_USAGE: &str = "`when` needs comparisons of the child's fields with values: `when(is_shown = true, likes >= 10)`";

impl RollupSettings {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut settings, mut seen) = (Self::default(), SeenSettings::default());
        while !input.is_empty() {
            if input.peek(LitInt) {
                let max: LitInt = input.parse()?;
                if settings.max.replace(max.clone()).is_some() {
                    return Err(syn::Error::new_spanned(
                        max,
                        "the maximum length is set twice: remove one of the numbers",
                    ));
                }
                expect_end(input, ACCEPTED_SETTINGS)?;
            } else {
                settings.parse_setting(input, &mut seen)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(settings)
    }

    fn parse_setting(
        &mut self,
        input: ParseStream<'_>,
        seen: &mut SeenSettings,
    ) -> syn::Result<()> {
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), ACCEPTED_SETTINGS))?;
        if name != "when" {
            seen.ensure_new(&name)?;
        }
        match name.to_string().as_str() {
            "of" => self.of = Some(parse_value(&name, input, ROLLUP_OF_USAGE)?),
            "value" => {
                self.value = Some(parse_value_with(
                    &name,
                    input,
                    ROLLUP_VALUE_USAGE,
                    parse_path,
                )?)
            }
            "by" => self.by = Some(parse_value_with(&name, input, LATEST_BY_USAGE, parse_path)?),
            "when" => {
                if !input.peek(Paren) {
                    return Err(syn::Error::new_spanned(name, ROLLUP_WHEN_USAGE));
                }
                let content;
                parenthesized!(content in input);
                let conditions: Punctuated<_, Token![,]> =
                    content.parse_terminated(parse_condition, Token![,])?;
                self.when.extend(conditions);
            }
            other => {
                return Err(syn::Error::new_spanned(
                    &name,
                    format!(
                        "{}: {ACCEPTED_SETTINGS}",
                        unknown_setting("setting", other, &["of", "value", "by", "when"])
                    ),
                ));
            }
        }
        Ok(())
    }

    fn into_rollup(self, attr: &Attribute) -> syn::Result<RollupAttr> {
        let error = |message: &str| Err(syn::Error::new_spanned(attr, message));
        let Some(mut of) = self.of else {
            return error(ROLLUP_OF_USAGE);
        };
        let Some(last) = of.segments.pop() else {
            return error(ROLLUP_OF_USAGE);
        };
        if of.segments.is_empty() {
            return Err(syn::Error::new_spanned(
                last,
                "missing reference of the child model: write `of = Model::reference`",
            ));
        }
        // After `pop`, the rest of the path ends with `::`.
        if let Some(model) = of.segments.pop() {
            of.segments.push_value(model);
        }
        let kind = match (attr.path(), self.value, self.max, self.by) {
            (path, None, None, None) if path.is_ident("count") => RollupKind::Count,
            (path, Some(value), None, None) if path.is_ident("sum") => RollupKind::Sum(value),
            (path, Some(value), None, None) if path.is_ident("avg") => RollupKind::Average(value),
            (path, Some(value), None, None) if path.is_ident("min") => {
                RollupKind::Extreme(Extreme::Min, value)
            }
            (path, Some(value), None, None) if path.is_ident("max") => {
                RollupKind::Extreme(Extreme::Max, value)
            }
            (path, None, Some(max), Some(by)) if path.is_ident("latest") => {
                if parse_number::<usize>(&max, LATEST_LENGTH_USAGE)? == 0 {
                    return Err(syn::Error::new_spanned(max, LATEST_LENGTH_USAGE));
                }
                RollupKind::Latest { max, by }
            }
            (path, ..) if path.is_ident("count") => {
                return error(
                    "a count has no further settings: write `#[count(of = Model::reference)]`, with `when(…)` to count only some \
                     documents",
                );
            }
            (path, ..) if !path.is_ident("latest") => {
                let name = path.to_token_stream();
                return error(&format!(
                    "`{name}` needs one field and no further settings: write `#[{name}(of = Model::reference, value = field)]`",
                ));
            }
            _ => {
                return error(
                    "missing maximum length or sorted field: write `#[latest(100, of = Model::reference, by = field)]`",
                );
            }
        };
        Ok(RollupAttr {
            of,
            reference: last.ident,
            when: self.when,
            kind,
        })
    }
}

/// Parses `stats.likes`.
pub(super) fn parse_path(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    let mut path = vec![input.call(Ident::parse_any)?];
    while input.peek(Token![.]) {
        input.parse::<Token![.]>()?;
        path.push(input.call(Ident::parse_any)?);
    }
    Ok(path)
}

/// Parses `state = State::Open`, or `total >= 100`.
fn parse_condition(input: ParseStream<'_>) -> syn::Result<RollupCondition> {
    let condition_error = |error: syn::Error| syn::Error::new(error.span(), ROLLUP_WHEN_USAGE);
    let path = parse_path(input).map_err(condition_error)?;
    let Some(comparison) = parse_comparison(input)? else {
        return Err(syn::Error::new_spanned(path.last(), ROLLUP_WHEN_USAGE));
    };
    let value = input.parse().map_err(condition_error)?;
    expect_end(input, ROLLUP_WHEN_USAGE)?;
    Ok(RollupCondition {
        path,
        comparison,
        value,
    })
}

/// Parses the operator of a condition; `None` for another token.
fn parse_comparison(input: ParseStream<'_>) -> syn::Result<Option<Comparison>> {
    // An operator of two characters begins with one of a single character.
    if input.peek(Token![==]) {
        return Err(input.error("`when` compares with `=`: write `when(field = value)`"));
    }
    let found = if input.peek(Token![!=]) {
        input.parse::<Token![!=]>().map(|_| Comparison::Ne)
    } else if input.peek(Token![<=]) {
        input.parse::<Token![<=]>().map(|_| Comparison::Lte)
    } else if input.peek(Token![>=]) {
        input.parse::<Token![>=]>().map(|_| Comparison::Gte)
    } else if input.peek(Token![<]) {
        input.parse::<Token![<]>().map(|_| Comparison::Lt)
    } else if input.peek(Token![>]) {
        input.parse::<Token![>]>().map(|_| Comparison::Gt)
    } else if input.peek(Token![=]) {
        input.parse::<Token![=]>().map(|_| Comparison::Eq)
    } else {
        return Ok(None);
    };
    found.map(Some)
}
