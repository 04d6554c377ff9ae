//! Beside the types: writes the methods by which options are said one by one, for all packages of this workspace.
//!
//! For the packages of this workspace alone: no part of the API.

/// Gives a struct a method for each of the named fields, which takes the field's value and gives the struct back.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($of:ident $(<$life:lifetime>)? { $($field:ident: $type:ty),+ $(,)? }) => {
        impl $(<$life>)? $of $(<$life>)? {
            $(
                #[doc = concat!("The same with this `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}
