package arch

import (
	"go/ast"
	"slices"

	"berth/tools/arch/prose"
	"berth/tools/arch/syntax"
)

// secretWords are what fields with secrets are called; words of the second list refer to one without holding it. A
// plain string called Secrets is the name of an entry in the secret store.
var (
	secretWords = []string{"secret", "password", "passphrase", "credentials"}
	secretMaps  = append([]string{"secrets", "passwords"}, secretWords...)
	references  = []string{"id", "ref", "refs", "name", "names", "path", "dir", "file", "accessor", "hash"}
)

// checkSecrets finds fields that hold a secret as plain text.
func checkSecrets(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if !matches("internal/**", f.Pkg.Dir) || f.Generated {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			st, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				for _, name := range field.Names {
					words := secretWords
					if _, single := field.Type.(*ast.Ident); !single {
						words = secretMaps
					}
					if plainText(field.Type) && secretName(name.Name, words) {
						out = append(out, t.at(f, name, "%s holds a secret as plain text", name.Name))
					}
				}
			}
			return true
		})
	})
	return out
}

func secretName(name string, secrets []string) bool {
	words := prose.SplitWords(name)
	isIn := func(list []string) func(string) bool { return func(w string) bool { return slices.Contains(list, w) } }
	return slices.ContainsFunc(words, isIn(secrets)) && !slices.ContainsFunc(words, isIn(references))
}

// plainText tells string, []byte and maps to them.
func plainText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "string"
	case *ast.StarExpr:
		return plainText(e.X)
	case *ast.ArrayType:
		return syntax.IsIdent(e.Elt, "byte") || plainText(e.Elt)
	case *ast.MapType:
		return plainText(e.Value)
	}
	return false
}
