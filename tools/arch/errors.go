package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"berth/tools/arch/syntax"
)

// checkErrors finds decisions on the text of errors, and wraps that lose their identity.
func checkErrors(t *Tree) []Finding {
	var out []Finding
	t.eachCode(func(f *File) {
		if f.Pkg.Suite() {
			return // a test may look at what people read
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				out = append(out, t.errorCall(f, n)...)
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (t.isErrorText(f, n.X) || t.isErrorText(f, n.Y)) {
					out = append(out, t.at(f, n, "compares the text of an error; use errors.Is, or fault.Has"))
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && t.isErrorText(f, n.Tag) {
					out = append(out, t.at(f, n, "switches on the text of an error; use errors.Is, or fault.KindOf"))
				}
			}
			return true
		})
	})
	return out
}

func (t *Tree) errorCall(f *File, c *ast.CallExpr) []Finding {
	pkg, fn := syntax.Call(c)
	var out []Finding
	for _, arg := range c.Args {
		if !t.isErrorText(f, arg) {
			continue
		}
		switch {
		case pkg == "strings" || pkg == "regexp":
			out = append(out, t.at(f, c, "strings.%s on the text of an error; use errors.Is, or fault.Has", fn))
		case pkg == "errors" && fn == "New", pkg == "fmt" && fn == "Errorf", pkg == "fault" && fn == "New":
			out = append(out, t.at(f, c, "%s.%s of an error's text loses what it is; wrap the error itself", pkg, fn))
		}
	}
	if pkg == "fmt" && fn == "Errorf" && len(c.Args) > 1 {
		out = append(out, t.errorVerbs(f, c)...)
	}
	return out
}

// isErrorText tells err.Error().
func (t *Tree) isErrorText(f *File, e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 0 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Error"
}

// errorVerbs finds errors that a format prints with another verb than %w.
func (t *Tree) errorVerbs(f *File, c *ast.CallExpr) []Finding {
	lit, ok := c.Args[0].(*ast.BasicLit)
	if !ok || c.Ellipsis.IsValid() {
		return nil
	}
	format, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil
	}
	var out []Finding
	for i, verb := range verbs(format) {
		if i+1 >= len(c.Args) {
			break
		}
		if arg := c.Args[i+1]; verb != 'w' && verb != 'T' && verb != '*' && t.isError(f, arg) {
			out = append(out, t.at(f, arg, "%%%c of an error loses what it is; use %%w", verb))
		}
	}
	return out
}

// verbs lists the verb of each argument of a format; a star stands for a width taken from an argument. Formats with
// explicit indexes are left alone: they give nothing.
func verbs(format string) []byte {
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		for i < len(format) && strings.IndexByte("+-# 0123456789.*[", format[i]) >= 0 {
			switch format[i] {
			case '*':
				out = append(out, '*')
			case '[':
				return nil
			}
			i++
		}
		if i < len(format) && format[i] != '%' {
			out = append(out, format[i])
		}
	}
	return out
}
