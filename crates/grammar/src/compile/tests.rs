//! Whole schemas through the compiler: what their grammars accept and what is refused, held against a validator.
