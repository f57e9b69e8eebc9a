//! The attribute of tests over seeds; `trainyard` exports it with its documentation.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, ItemFn, LitInt, Token};

#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(arguments.into(), function.into()).unwrap_or_else(Error::into_compile_error).into()
}

/// The arguments of the attribute: `seeds = 100`, or none.
struct Arguments {
    seeds: u64,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.is_empty() {
            return Ok(Self { seeds: 10 });
        }
        let key: syn::Ident = input.parse()?;
        if key != "seeds" {
            return Err(Error::new(
                key.span(),
                "the only argument is the number of seeds: `seeds = 100`",
            ));
        }
        input.parse::<Token![=]>()?;
        let number: LitInt = input.parse()?;
        match number.base10_parse()? {
            0 => Err(Error::new(number.span(), "a test takes at least one seed")),
            seeds => Ok(Self { seeds }),
        }
    }
}

/// A test of the name of `function` and without arguments, which calls it with each seed.
fn expand(arguments: Tokens, function: Tokens) -> syn::Result<Tokens> {
    let Arguments { seeds } = syn::parse2(arguments)?;
    let mut function: ItemFn = syn::parse2(function)?;
    let signature = &function.sig;
    if signature.inputs.len() != 1 || signature.asyncness.is_some() {
        let what = "a test over seeds takes its seed, and isn't async: `fn name(seed: u64)`";
        return Err(Error::new_spanned(signature, what));
    }
    let name = signature.ident.clone();
    let attributes = std::mem::take(&mut function.attrs);
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attributes)*
        fn #name() {
            #function
            ::trainyard::experiment::over_seeds(
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)),
                #seeds,
                #name,
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Tokens, expand, quote};

    fn refused(arguments: Tokens, function: Tokens) -> String {
        expand(arguments, function).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_test_over_seeds_is_refused_with_what_to_write() {
        let test = quote! { fn holds(seed: u64) {} };
        assert!(refused(quote! { seed = 3 }, test.clone()).contains("`seeds = 100`"));
        assert!(refused(quote! { seeds = 0 }, test).contains("at least one seed"));
        for other in [quote! { fn holds() {} }, quote! { async fn holds(seed: u64) {} }] {
            assert!(refused(quote! {}, other).contains("`fn name(seed: u64)`"));
        }
    }

    #[test]
    fn other_attributes_are_the_tests() {
        let test = quote! { #[ignore] fn holds(seed: u64) {} };
        let expanded = expand(quote! { seeds = 3 }, test).unwrap().to_string();
        assert!(expanded.contains("# [ignore] fn holds ()"), "{expanded}");
    }
}
