//! Beside the types: writes the methods by which bounds and options are said one by one.

/// Gives a struct a method for each of the named fields, which takes the field's value and gives the struct back.
macro_rules! setters {
    ($of:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        impl $of {
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

pub(crate) use setters;
