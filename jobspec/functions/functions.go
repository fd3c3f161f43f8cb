package functions

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/hashicorp/go-cty-funcs/uuid"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// pureFunctions are the functions of every job file. None reads a file or the network.
var pureFunctions = map[string]function.Function{
	"abs":             stdlib.AbsoluteFunc,
	"base64decode":    base64DecodeFunc,
	"base64encode":    encoding.Base64EncodeFunc,
	"bcrypt":          guarded(crypto.BcryptFunc, smallCost),
	"can":             tryfunc.CanFunc,
	"ceil":            stdlib.CeilFunc,
	"chomp":           stdlib.ChompFunc,
	"chunklist":       stdlib.ChunklistFunc,
	"cidrhost":        cidrHostFunc,
	"cidrnetmask":     cidrNetmaskFunc,
	"cidrsubnet":      cidrSubnetFunc,
	"cidrsubnets":     cidrSubnetsFunc,
	"coalesce":        stdlib.CoalesceFunc,
	"coalescelist":    stdlib.CoalesceListFunc,
	"compact":         stdlib.CompactFunc,
	"concat":          stdlib.ConcatFunc,
	"contains":        stdlib.ContainsFunc,
	"convert":         typeexpr.ConvertFunc,
	"csvdecode":       stdlib.CSVDecodeFunc,
	"distinct":        stdlib.DistinctFunc,
	"element":         stdlib.ElementFunc,
	"flatten":         stdlib.FlattenFunc,
	"floor":           stdlib.FloorFunc,
	"format":          guarded(stdlib.FormatFunc, smallWidths),
	"formatdate":      stdlib.FormatDateFunc,
	"formatlist":      guarded(stdlib.FormatListFunc, smallWidths),
	"indent":          guarded(stdlib.IndentFunc, smallIndent),
	"index":           stdlib.IndexFunc,
	"join":            guarded(stdlib.JoinFunc, smallArguments),
	"jsondecode":      stdlib.JSONDecodeFunc,
	"jsonencode":      stdlib.JSONEncodeFunc,
	"keys":            stdlib.KeysFunc,
	"length":          stdlib.LengthFunc,
	"log":             stdlib.LogFunc,
	"lookup":          stdlib.LookupFunc,
	"lower":           stdlib.LowerFunc,
	"max":             stdlib.MaxFunc,
	"md5":             crypto.Md5Func,
	"merge":           stdlib.MergeFunc,
	"min":             stdlib.MinFunc,
	"parseint":        stdlib.ParseIntFunc,
	"pow":             stdlib.PowFunc,
	"range":           stdlib.RangeFunc,
	"regex_replace":   guarded(stdlib.RegexReplaceFunc, smallArguments),
	"replace":         guarded(stdlib.ReplaceFunc, smallReplacement),
	"reverse":         reverseFunc,
	"rsadecrypt":      rsaDecryptFunc,
	"setintersection": stdlib.SetIntersectionFunc,
	"setproduct":      guarded(stdlib.SetProductFunc, smallProduct),
	"setunion":        stdlib.SetUnionFunc,
	"sha1":            crypto.Sha1Func,
	"sha256":          crypto.Sha256Func,
	"sha512":          crypto.Sha512Func,
	"signum":          stdlib.SignumFunc,
	"slice":           stdlib.SliceFunc,
	"sort":            stdlib.SortFunc,
	"split":           stdlib.SplitFunc,
	"strlen":          stdlib.StrlenFunc,
	"strrev":          stdlib.ReverseFunc,
	"substr":          stdlib.SubstrFunc,
	"timeadd":         stdlib.TimeAddFunc,
	"title":           stdlib.TitleFunc,
	"trim":            stdlib.TrimFunc,
	"trimprefix":      stdlib.TrimPrefixFunc,
	"trimspace":       stdlib.TrimSpaceFunc,
	"trimsuffix":      stdlib.TrimSuffixFunc,
	"try":             tryfunc.TryFunc,
	"upper":           stdlib.UpperFunc,
	"urlencode":       encoding.URLEncodeFunc,
	"uuidv4":          uuid.V4Func,
	"uuidv5":          uuid.V5Func,
	"values":          stdlib.ValuesFunc,
	"yamldecode":      ctyyaml.YAMLDecodeFunc,
	"yamlencode":      ctyyaml.YAMLEncodeFunc,
	"zipmap":          stdlib.ZipmapFunc,
}

// fileFunctions are the functions that read the author's machine, by name.
var fileFunctions = map[string]func(dir string) function.Function{
	"abspath":    pathFunc(absPath),
	"basename":   pathFunc(baseName),
	"dirname":    pathFunc(dirName),
	"file":       pathFunc(readText),
	"filebase64": pathFunc(readBase64),
	"fileexists": fileExistsFunc,
	"fileset":    fileSetFunc,
	"pathexpand": pathFunc(pathExpand),
}

// Pure are the names of the pure functions, sorted.
func Pure() []string { return slices.Sorted(maps.Keys(pureFunctions)) }

// File are the names of the functions that read the author's machine, sorted.
func File() []string { return slices.Sorted(maps.Keys(fileFunctions)) }

// For are the functions of a document whose directory is dir. Where files are off limits, the functions that
// read them exist and say so.
func For(dir string, files bool) map[string]function.Function {
	out := make(map[string]function.Function, len(pureFunctions)+len(fileFunctions))
	for name, f := range pureFunctions {
		out[name] = f
	}
	for name, f := range fileFunctions {
		if files {
			out[name] = f(dir)
			continue
		}
		out[name] = forbiddenFunc(name)
	}
	return out
}

func forbiddenFunc(name string) function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{
			Name:             "args",
			Type:             cty.DynamicPseudoType,
			AllowNull:        true,
			AllowDynamicType: true,
		},
		Type: func([]cty.Value) (cty.Type, error) {
			return cty.NilType,
				fmt.Errorf("%s reads files of the author's machine and is not available on a server; parse the file "+
					"with the command line", name)
		},
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.NilVal, errors.New("not available") },
	})
}

// guarded runs a check of the arguments before a function that could make very large values of small ones.
func guarded(f function.Function, check func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

var errTooLarge = fmt.Errorf("the result would become larger than %d bytes", 16*MaxValue)

func smallArguments(args []cty.Value) error {
	size := 0
	for _, a := range args {
		size += SizeOf(a, 16*MaxValue)
	}
	if size > 16*MaxValue {
		return errTooLarge
	}
	return nil
}

// smallReplacement bounds replace(text, old, new): every byte of text may become one new.
func smallReplacement(args []cty.Value) error {
	if len(args) == 3 && SizeOf(args[0], MaxValue)*SizeOf(args[2], MaxValue) > 64*MaxValue {
		return errTooLarge
	}
	return nil
}

// smallProduct bounds setproduct: its result has as many elements as the lengths' product.
func smallProduct(args []cty.Value) error {
	n := 1
	for _, a := range args {
		if a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
			n *= max(a.LengthInt(), 1)
		}
		if n > 100000 {
			return errors.New("the product would have more than 100000 elements")
		}
	}
	return nil
}

var wideVerb = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{5}`)
})

func smallWidths(args []cty.Value) error {
	if len(args) == 0 || !args[0].IsKnown() || args[0].IsNull() || args[0].Type() != cty.String {
		return nil
	}
	if wideVerb().MatchString(args[0].AsString()) {
		return errors.New("a width or precision above 9999 is not allowed")
	}
	return nil
}

func smallIndent(args []cty.Value) error {
	if len(args) == 0 || !args[0].IsKnown() || args[0].IsNull() || args[0].Type() != cty.Number {
		return nil
	}
	if n, _ := args[0].AsBigFloat().Int64(); n < 0 || n > 1000 {
		return errors.New("the indentation must be between 0 and 1000")
	}
	return nil
}
