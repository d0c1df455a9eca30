//! How a setting is written: once, and with a value of its kind.

use quote::ToTokens;
use syn::{
    Error, Result, Token,
    parse::{Parse, ParseStream},
};

/// The settings that were said so far.
#[derive(Default)]
pub(crate) struct Once(Vec<String>);

impl Once {
    /// Refuses a setting that was said before: which of the two is meant?
    pub(crate) fn check(&mut self, name: &impl ToTokens) -> Result<()> {
        let text = name.to_token_stream().to_string();
        if self.0.contains(&text) {
            let message = format!("`{text}` is said twice: leave one of them out");
            return Err(Error::new_spanned(name, message));
        }
        self.0.push(text);
        Ok(())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|said| said == name)
    }
}

/// The value behind `name =`; `say` is how it is written, for what is no such value.
pub(crate) fn value<T: Parse>(
    name: &impl ToTokens,
    input: ParseStream<'_>,
    say: &str,
) -> Result<T> {
    value_by(name, input, say, |input| input.parse())
}

/// The same of what is read by a function.
pub(crate) fn value_by<T>(
    name: &impl ToTokens,
    input: ParseStream<'_>,
    say: &str,
    parse: impl FnOnce(ParseStream<'_>) -> Result<T>,
) -> Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new_spanned(name, say));
    }
    input.parse::<Token![=]>()?;
    let value = parse(input).map_err(|error| Error::new(error.span(), say))?;
    ends(input, say)?;
    Ok(value)
}

/// A word without a value.
pub(crate) fn flag(name: &impl ToTokens, input: ParseStream<'_>) -> Result<()> {
    let name = name.to_token_stream();
    ends(input, &format!("`{name}` has no value: say `{name}` alone"))
}

/// Refuses what stands between a setting and the next one.
pub(crate) fn ends(input: ParseStream<'_>, say: &str) -> Result<()> {
    match input.is_empty() || input.peek(Token![,]) {
        true => Ok(()),
        false => Err(input.error(say)),
    }
}
