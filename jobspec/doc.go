// Package jobspec owns the reading of what people write in HCL: job files and volume files. It turns them into the
// types of package api and says with file, line and column what is wrong.
//
// Decoding is driven by the `hcl` tags of the target types (see package api); a new job field needs no code here.
// References that can only be resolved on a node, such as ${attr.kernel.name} or ${NOMAD_ALLOC_DIR}, stay text.
// Input is bounded in size, nesting and number of blocks.
//
// The package imports api and public libraries only. The command line and the server's HTTP surface may import it.
package jobspec
