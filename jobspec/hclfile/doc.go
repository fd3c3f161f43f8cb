// Package hclfile owns the reading of HCL and JSON documents into tagged structs: parsing within bounds, evaluation of
// expressions, dynamic blocks, and problems with file, line and column. It knows no job and no volume.
//
// Package jobspec and whoever reads configuration through it build on this package.
package hclfile
