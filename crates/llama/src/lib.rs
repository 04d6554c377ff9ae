pub use llama_cpp_2 as _l;
