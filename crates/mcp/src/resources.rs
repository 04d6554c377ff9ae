//! Resources that an embedder gives a [`Server`](super::Server), in the protocol's form.
//!
//! Invariant: a list comes in pages, and no resource is longer than [`MOST`] bytes.

use std::sync::Arc;

use rmcp::model::{self, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult};
use toolgate_sandbox::output;

use super::content;
use super::page::{page, refusal};
use crate::Error;
use toolgate_tools::{Body, Contents};

/// Longest resource, in bytes. With the rest of its message it fits the 4 MiB that clients take.
const MOST: usize = 3 * 1024 * 1024;

/// Resources that clients may read.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent::Error;
/// use toolgate_mcp::{Resource, ResourceTemplate, Resources, Server, Unasked};
/// use toolgate_tools::{Contents, Registry};
///
/// struct Notes;
///
/// impl Resources for Notes {
///     fn list(&self) -> Vec<Resource> {
///         vec![Resource::new("notes://today", "today").description("What is to do.".into())]
///     }
///
///     fn templates(&self) -> Vec<ResourceTemplate> {
///         vec![ResourceTemplate::new("notes://{day}", "any day")]
///     }
///
///     fn read(&self, uri: &str) -> Result<Option<Contents>, Error> {
///         Ok((uri == "notes://today").then(|| Contents::text(uri, "Water the plants.")))
///     }
/// }
///
/// let server = Server::new(Registry::new(), Unasked::Deny).with_resources(Arc::new(Notes))?;
/// # Ok::<(), Error>(())
/// ```
pub trait Resources: Send + Sync {
    /// All resources at the moment. Clients get them in pages.
    fn list(&self) -> Vec<Resource>;

    /// Patterns of URIs that can be read as well.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// The contents of a resource; none where there is no such resource.
    ///
    /// # Errors
    /// Any reason that the resource cannot be read. Clients get it.
    fn read(&self, uri: &str) -> Result<Option<Contents>, Error>;

    /// Keeps `changed`, to call it from any thread with the URI of each resource that changes. Returns whether it will: if not,
    /// clients cannot subscribe.
    fn watch(&self, changed: Arc<Changed>) -> bool {
        let _ = changed;
        false
    }
}

/// A function that takes the URI of a changed resource.
pub type Changed = dyn Fn(&str) + Send + Sync;

/// A resource in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its description; may be empty.
    pub description: String,
    /// Its type, such as `text/plain`, where it is known.
    pub mime_type: Option<String>,
}

toolgate_chat::setters! { Resource {
    description: String,
    mime_type: Option<String>,
} }

impl Resource {
    /// A resource of that URI and name, with no description, of a type that is not known.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

/// Resources whose URIs have one form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The form, as in RFC 6570: `notes://{day}`.
    pub uri_template: String,
    /// Their name.
    pub name: String,
    /// Their description; may be empty.
    pub description: String,
    /// Their type, if all have the same.
    pub mime_type: Option<String>,
}

toolgate_chat::setters! { ResourceTemplate {
    description: String,
    mime_type: Option<String>,
} }

impl ResourceTemplate {
    /// Resources of that form and name, with no description, of types that are not known.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}

/// A page of the list.
pub(super) fn list(of: &dyn Resources, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let (resources, next_cursor) = page(of.list(), cursor)?;
    let resources = resources.into_iter().map(listed).collect();
    Ok(ListResourcesResult { resources, next_cursor, ..ListResourcesResult::default() })
}

/// A page of the list of templates.
pub(super) fn templates(
    of: &dyn Resources,
    cursor: Option<&str>,
) -> Result<ListResourceTemplatesResult, ErrorData> {
    let (templates, next_cursor) = page(of.templates(), cursor)?;
    let resource_templates = templates.into_iter().map(listed_template).collect();
    Ok(ListResourceTemplatesResult {
        resource_templates,
        next_cursor,
        ..ListResourceTemplatesResult::default()
    })
}

/// The contents of a resource.
pub(super) fn read(of: &dyn Resources, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let shown = || output::name(uri);
    let contents = of.read(uri).map_err(|error| refusal(&error))?.ok_or_else(|| {
        let message = format!("there is no resource \"{}\"; resources/list names those there are", shown());
        ErrorData::resource_not_found(message, None)
    })?;
    let bytes = match &contents.body {
        Body::Text(text) => text.len(),
        Body::Bytes(bytes) => bytes.len(),
    };
    if bytes > MOST {
        let message = format!("the resource \"{}\" has {bytes} bytes; {MOST} are sent at most", shown());
        return Err(ErrorData::internal_error(message, None));
    }
    Ok(ReadResourceResult::new(vec![content::resource(contents)]))
}

fn listed(resource: Resource) -> model::Resource {
    let mut listed = model::Resource::new(resource.uri, resource.name);
    listed.description = Some(resource.description).filter(|text| !text.is_empty());
    listed.mime_type = resource.mime_type;
    listed
}

fn listed_template(template: ResourceTemplate) -> model::ResourceTemplate {
    let mut listed = model::ResourceTemplate::new(template.uri_template, template.name);
    listed.description = Some(template.description).filter(|text| !text.is_empty());
    listed.mime_type = template.mime_type;
    listed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Kind;

    struct Many(usize);

    impl Resources for Many {
        fn list(&self) -> Vec<Resource> {
            (0..self.0).map(|n| Resource::new(format!("a:{n}"), n.to_string())).collect()
        }

        fn read(&self, uri: &str) -> Result<Option<Contents>, Error> {
            match uri {
                "a:closed" => Err(Error::new(Kind::Denied, "it is closed")),
                "a:long" => Ok(Some(Contents::bytes(uri, vec![0; MOST + 1]))),
                "a:full" => Ok(Some(Contents::bytes(uri, vec![0; MOST]))),
                _ => Ok(None),
            }
        }
    }

    #[test]
    fn a_list_comes_in_pages_until_there_is_no_more() {
        for count in [0, 1, 200, 201, 500] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = list(&Many(count), cursor.as_deref()).unwrap();
                assert!(page.resources.len() <= 200);
                seen.extend(page.resources.into_iter().map(|resource| resource.uri));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, (0..count).map(|n| format!("a:{n}")).collect::<Vec<_>>());
        }
        assert!(list(&Many(1), Some("x")).unwrap_err().message.contains("cursor"));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_says_why() {
        let check = |uri: &str, why: &str| {
            let error = read(&Many(0), uri).unwrap_err();
            assert!(error.message.contains(why), "{error:?}");
        };
        check("a:closed", "it is closed");
        check("a:none", "there is no resource \"a:none\"");
        check("a:long", "3145728 are sent at most");
        assert_eq!(read(&Many(0), "a:full").unwrap().contents.len(), 1);
    }
}
