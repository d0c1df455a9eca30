//! Parsers of a single setting: a name that occurs once, with a value of its type.

use quote::ToTokens;
use syn::{
    Error, Result, Token,
    parse::{Parse, ParseStream},
};

/// The names of the settings that were parsed so far.
#[derive(Default)]
pub(crate) struct SeenSettings(Vec<String>);

impl SeenSettings {
    /// Reports a setting that occurs twice: the derive cannot know which value is meant.
    pub(crate) fn ensure_new(&mut self, name: &impl ToTokens) -> Result<()> {
        let text = name.to_token_stream().to_string();
        if self.0.contains(&text) {
            let message = format!("`{text}` is set twice: remove one of them");
            return Err(Error::new_spanned(name, message));
        }
        self.0.push(text);
        Ok(())
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.0.iter().any(|seen| seen == name)
    }
}

/// Parses the value after `name =`. `usage` is the error message for any other input.
pub(crate) fn parse_value<T: Parse>(
    name: &impl ToTokens,
    input: ParseStream<'_>,
    usage: &str,
) -> Result<T> {
    parse_value_with(name, input, usage, |input| input.parse())
}

/// Parses the value after `name =` with a function.
pub(crate) fn parse_value_with<T>(
    name: &impl ToTokens,
    input: ParseStream<'_>,
    usage: &str,
    parse: impl FnOnce(ParseStream<'_>) -> Result<T>,
) -> Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new_spanned(name, usage));
    }
    input.parse::<Token![=]>()?;
    let value = parse(input).map_err(|error| Error::new(error.span(), usage))?;
    expect_end(input, usage)?;
    Ok(value)
}

/// Ensures that a setting has no value.
pub(crate) fn expect_flag(name: &impl ToTokens, input: ParseStream<'_>) -> Result<()> {
    let name = name.to_token_stream();
    expect_end(
        input,
        &format!("`{name}` takes no value: write `{name}` alone"),
    )
}

/// Ensures that the next setting or the end follows.
pub(crate) fn expect_end(input: ParseStream<'_>, usage: &str) -> Result<()> {
    match input.is_empty() || input.peek(Token![,]) {
        true => Ok(()),
        false => Err(input.error(usage)),
    }
}
