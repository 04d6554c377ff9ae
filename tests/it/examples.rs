//! The examples in the documentation: every public function of the libraries stands in one that is compiled.
//!
//! This reads text. An example shows a function by its path or by a call:
//!
//! - a free function: `name(…)` or `module::name`, with no type in front of it;
//! - a function of a type: `Type::name`;
//! - a method: `.name(…)`, where a value of its type is in play.
//!
//! A type is in play where the example names it or documents it, and where a function or a field that the example uses has
//! it in its type. This cannot see:
//!
//! - which of the types in play a method is called on: two methods of the same name count as one if both types are in play;
//! - names that `use … as …` or a type alias changes;
//! - methods of traits, which are not looked for;
//! - whether the example checks what the function does.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{
    Attribute, Expr, Fields, File, FnArg, Ident, ImplItem, Item, Lit, Meta, ReturnType, Signature, TraitItem,
    Type, Visibility,
};

use crate::tidy::{root, rust_files};

/// A file's head has these words, or that of its package, where its functions are public for other packages of ours alone.
const INTERNAL: &str = "//! For the packages of this workspace alone";

/// Names of types.
type Names = BTreeSet<String>;

/// A function: the type it belongs to, its name, whether it takes `self`, and what is in its return type.
#[derive(Debug)]
struct Function {
    of: Option<String>,
    name: String,
    is_method: bool,
    gives: Names,
    /// Where it stands.
    path: PathBuf,
    /// Whether an example has to show it.
    is_wanted: bool,
}

impl Function {
    /// Its name with that of its package and that of its type.
    fn full_name(&self) -> String {
        let path = self.path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let library = path
            .trim_start_matches("crates/")
            .split('/')
            .next()
            .unwrap_or_default()
            .replace("src", "toolgate");
        [Some(&library), self.of.as_ref(), Some(&self.name)]
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join("::")
    }
}

/// An example as words and marks, with the places of each, and with the types that it documents.
struct Example {
    tokens: Vec<String>,
    places: HashMap<String, Vec<usize>>,
    about: Names,
}

/// What the libraries declare.
#[derive(Default)]
struct Libraries {
    functions: Vec<Function>,
    /// The types in the fields of a type and in those of its variants.
    parts: HashMap<String, HashMap<String, Names>>,
    examples: Vec<Example>,
}

impl Libraries {
    fn read(files: &[PathBuf]) -> Self {
        let mut libraries = Self::default();
        for path in files {
            libraries.add(path, &fs::read_to_string(path).unwrap());
        }
        libraries
    }

    fn add(&mut self, path: &Path, text: &str) {
        let file: File = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let place = Place { path, is_internal: is_internal(path, text) };
        self.documents(&place, &file.attrs, &Names::new());
        file.items.iter().for_each(|item| self.item(&place, item));
    }

    /// The full names of the functions that have to be shown: those that are, and those that are not.
    fn sorted(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let shown: HashSet<usize> = self.examples.iter().flat_map(|example| self.shown(example)).collect();
        // One system's function is shown with its twin of another.
        let shown: HashSet<String> = shown.into_iter().map(|at| self.functions[at].full_name()).collect();
        let wanted = self.functions.iter().filter(|function| function.is_wanted).map(Function::full_name);
        wanted.partition(|name| shown.contains(name))
    }

    fn item(&mut self, place: &Place<'_>, item: &Item) {
        match item {
            Item::Fn(function) => {
                self.documents(place, &function.attrs, &Names::new());
                self.function(place, None, &function.vis, &function.attrs, &function.sig);
            }
            Item::Struct(of) => {
                let about = self.documents(place, &of.attrs, &Names::from([of.ident.to_string()]));
                self.fields(place, &of.ident.to_string(), &of.fields, &about);
            }
            Item::Enum(of) => {
                let about = self.documents(place, &of.attrs, &Names::from([of.ident.to_string()]));
                for variant in &of.variants {
                    self.documents(place, &variant.attrs, &about);
                    self.fields(place, &of.ident.to_string(), &variant.fields, &about);
                }
            }
            Item::Trait(of) => {
                let about = self.documents(place, &of.attrs, &Names::from([of.ident.to_string()]));
                for item in &of.items {
                    let TraitItem::Fn(function) = item else { continue };
                    self.documents(place, &function.attrs, &about);
                    let private = Visibility::Inherited;
                    self.function(
                        place,
                        Some(&of.ident.to_string()),
                        &private,
                        &function.attrs,
                        &function.sig,
                    );
                }
            }
            Item::Impl(of) => {
                let Type::Path(path) = &*of.self_ty else { return };
                let name = path.path.segments.last().unwrap().ident.to_string();
                let is_hidden = has_doc_hidden(&of.attrs);
                for item in &of.items {
                    let ImplItem::Fn(function) = item else { continue };
                    self.documents(place, &function.attrs, &Names::from([name.clone()]));
                    if !is_hidden {
                        self.function(place, Some(&name), &function.vis, &function.attrs, &function.sig);
                    }
                }
            }
            Item::Mod(inner) if !is_for_tests(&inner.attrs) => {
                self.documents(place, &inner.attrs, &Names::new());
                inner.content.iter().flat_map(|(_, items)| items).for_each(|item| self.item(place, item));
            }
            _ => {}
        }
    }

    fn fields(&mut self, place: &Place<'_>, of: &str, fields: &Fields, about: &Names) {
        for field in fields {
            self.documents(place, &field.attrs, about);
            let name = field.ident.as_ref().map_or(String::new(), ToString::to_string);
            let held = self.parts.entry(of.to_owned()).or_default().entry(name).or_default();
            held.extend(types(&field.ty));
        }
    }

    fn function(
        &mut self,
        place: &Place<'_>,
        of: Option<&str>,
        vis: &Visibility,
        attributes: &[Attribute],
        signature: &Signature,
    ) {
        let mut gives = match &signature.output {
            ReturnType::Type(_, output) => types(output),
            ReturnType::Default => Names::new(),
        };
        if gives.contains("Self") {
            gives.extend(of.map(str::to_owned));
        }
        let is_public = matches!(vis, Visibility::Public(_)) && !has_doc_hidden(attributes);
        self.functions.push(Function {
            of: of.map(str::to_owned),
            name: signature.ident.to_string(),
            is_method: signature.inputs.iter().any(|input| matches!(input, FnArg::Receiver(_))),
            gives,
            path: place.path.to_owned(),
            is_wanted: is_public && !place.is_internal && !is_for_tests(attributes),
        });
    }

    /// Takes the examples out of an item's documentation; gives back what it is about.
    fn documents(&mut self, place: &Place<'_>, attributes: &[Attribute], about: &Names) -> Names {
        let mut text = String::new();
        for attribute in attributes {
            let Meta::NameValue(pair) = &attribute.meta else { continue };
            if !pair.path.is_ident("doc") {
                continue;
            }
            match &pair.value {
                Expr::Lit(line) => {
                    let Lit::Str(line) = &line.lit else { continue };
                    text += &line.value();
                }
                Expr::Macro(include) => {
                    let file: syn::LitStr = include.mac.parse_body().unwrap();
                    text += &fs::read_to_string(place.path.with_file_name(file.value())).unwrap();
                }
                _ => {}
            }
            text.push('\n');
        }
        for code in blocks(&text) {
            // What is no Rust is no example of it either.
            let Ok(stream) = code.parse::<TokenStream>() else { continue };
            let mut tokens = Vec::new();
            flatten(stream, &mut tokens);
            let mut places = HashMap::<String, Vec<usize>>::new();
            for (at, token) in tokens.iter().enumerate() {
                places.entry(token.clone()).or_default().push(at);
            }
            self.examples.push(Example { tokens, places, about: about.clone() });
        }
        about.clone()
    }

    /// The places of the functions that an example shows.
    fn shown(&self, example: &Example) -> HashSet<usize> {
        let mut in_play = example.about.clone();
        in_play.extend(example.tokens.iter().filter(|token| token.starts_with(char::is_uppercase)).cloned());
        let mut shown = HashSet::new();
        let named = self.functions.iter().enumerate();
        let named: Vec<_> =
            named.filter(|(_, function)| example.places.contains_key(&function.name)).collect();
        loop {
            let before = (in_play.len(), shown.len());
            for (at, function) in named.iter().copied() {
                if !shown.contains(&at) && example.calls(function, &in_play) {
                    shown.insert(at);
                    in_play.extend(function.gives.iter().cloned());
                }
            }
            for parts in in_play.clone().iter().filter_map(|name| self.parts.get(name)) {
                let used = parts.iter().filter(|(field, _)| example.uses(field));
                in_play.extend(used.flat_map(|(_, types)| types.iter().cloned()));
            }
            if before == (in_play.len(), shown.len()) {
                return shown;
            }
        }
    }
}

impl Example {
    /// Whether `.field` or a pattern's `field` stands in it; fields without a name are those of variants that patterns open.
    fn uses(&self, field: &str) -> bool {
        field.is_empty() || self.places.contains_key(field)
    }

    fn calls(&self, function: &Function, in_play: &Names) -> bool {
        let is_type = |token: &str| token.starts_with(char::is_uppercase);
        self.places.get(&function.name).into_iter().flatten().any(|&at| {
            let token = |from: usize| at.checked_sub(from).map_or("", |at| self.tokens[at].as_str());
            let next = self.tokens.get(at + 1).map_or("", String::as_str);
            match (token(1), &function.of) {
                (".", Some(of)) => function.is_method && in_play.contains(of) && matches!(next, "(" | "::"),
                ("::", Some(of)) => self.path_before(at).contains(of),
                ("::", None) => !is_type(token(2)) && token(2) != ">",
                (_, None) => matches!(next, "(" | "::"),
                _ => false,
            }
        })
    }

    /// The words of the path in front of a place, type arguments included.
    fn path_before(&self, at: usize) -> Vec<String> {
        let belongs = |token: &&String| {
            token.starts_with(|c: char| c.is_alphabetic() || c == '_')
                || matches!(token.as_str(), "::" | "<" | ">" | "," | "&")
        };
        self.tokens[..at].iter().rev().take_while(belongs).take(12).cloned().collect()
    }
}

/// The file that is read.
struct Place<'a> {
    path: &'a Path,
    is_internal: bool,
}

fn is_internal(path: &Path, text: &str) -> bool {
    let library = path.ancestors().find(|dir| dir.ends_with("src")).map(|src| src.join("lib.rs"));
    let library = library.and_then(|library| fs::read_to_string(library).ok()).unwrap_or_default();
    text.contains(INTERNAL) || library.contains(INTERNAL)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

fn has_doc_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("doc") && list.tokens.to_string() == "hidden",
        _ => false,
    })
}

/// The names in a type.
fn types(of: &Type) -> Names {
    struct Found(Names);
    impl<'t> Visit<'t> for Found {
        fn visit_ident(&mut self, name: &'t Ident) {
            self.0.insert(name.to_string());
        }
    }
    let mut found = Found(Names::new());
    found.visit_type(of);
    found.0
}

/// The Rust code of a text's fences that is compiled.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut within: Option<(bool, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &mut within) {
            (Some(_), Some(_)) => {
                blocks.extend(within.take().filter(|(is_rust, _)| *is_rust).map(|(_, code)| code))
            }
            (Some(info), None) => {
                let words = ["", "rust", "no_run", "standalone_crate"];
                within = Some((info.split(',').all(|word| words.contains(&word.trim())), String::new()));
            }
            (None, Some((_, code))) => {
                // A line that readers do not see.
                let line = line.trim_start();
                *code += line.strip_prefix("# ").unwrap_or(line);
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Words and marks in order, with `::` as one.
fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                tokens.push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(close.to_owned());
            }
            TokenTree::Punct(mark)
                if mark.as_char() == ':' && tokens.last().is_some_and(|last| last == ":") =>
            {
                *tokens.last_mut().unwrap() = "::".to_owned();
            }
            TokenTree::Literal(_) => tokens.push("\"".to_owned()),
            other => tokens.push(other.to_string()),
        }
    }
}

#[test]
fn every_public_function_stands_in_an_example_that_runs() {
    let mut files = Vec::new();
    for dir in ["src", "crates", "sandbox"] {
        rust_files(&root().join(dir), &mut files);
    }
    files.retain(|path| {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_source = path.split('/').any(|part| part == "src");
        is_source && !path.starts_with("src/cli/") && !path.contains("tests")
    });
    let libraries = Libraries::read(&files);
    let (there, silent) = libraries.sorted();
    assert!(there.len() > 400, "only {} functions stand in examples", there.len());
    assert!(silent.is_empty(), "in no example: {silent:?}");
}

#[test]
fn a_function_is_shown_by_its_path_or_by_a_call_on_a_type_in_play() {
    let text = r#"
        /// ```
        /// use library::count;
        /// let shelf = Shelf::new(3);
        /// // shelf.burn() stands in a comment, "shelf.sell()" in a text.
        /// assert_eq!(shelf.first().title(), "shelf.sell()");
        /// count(&shelf);
        /// ```
        pub struct Shelf;
        impl Shelf {
            pub fn new(books: usize) -> Self {}
            pub fn first(&self) -> Option<Book> {}
            pub fn count(&self) {}
            pub fn burn(self) {}
            pub fn sell(self) {}
            fn hidden(&self) {}
        }
        pub struct Book;
        impl Book {
            pub fn new() -> Self {}
            pub fn title(&self) -> &str {}
        }
        pub struct Song;
        impl Song {
            pub fn title(&self) -> &str {}
        }
        pub fn count(shelf: &Shelf) {}
        pub fn new() {}
    "#;
    let mut libraries = Libraries::default();
    libraries.add(&root().join("sandbox/src/shelf.rs"), text);
    let (there, silent) = libraries.sorted();
    let full = |names: &[&str]| names.iter().map(|name| format!("sandbox::{name}")).collect::<BTreeSet<_>>();
    assert_eq!(there, full(&["Book::title", "Shelf::first", "Shelf::new", "count"]));
    assert_eq!(
        silent,
        full(&["Book::new", "Shelf::burn", "Shelf::count", "Shelf::sell", "Song::title", "new"])
    );
}
