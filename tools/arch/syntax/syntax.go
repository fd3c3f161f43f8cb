// Package syntax owns the small questions about Go's syntax that several rules ask.
package syntax

import "go/ast"

// Call returns the package name and function of a call like pkg.Fn(...), empty when it is another kind of call.
func Call(e ast.Expr) (pkg, fn string) {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return "", ""
	}
	return Selector(c.Fun)
}

// Selector returns both sides of left.right, without a type argument.
func Selector(e ast.Expr) (left, right string) {
	if ix, ok := e.(*ast.IndexExpr); ok {
		e = ix.X
	}
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return id.Name, s.Sel.Name
}

// IsIdent tells the plain use of a name.
func IsIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// Calls yields the calls beneath a node.
func Calls(root ast.Node) func(func(*ast.CallExpr) bool) {
	return func(yield func(*ast.CallExpr) bool) {
		goOn := true
		ast.Inspect(root, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && goOn {
				goOn = yield(c)
			}
			return goOn
		})
	}
}

// Called is the name of the function or method that is called.
func Called(c *ast.CallExpr) string {
	switch fn := c.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		return fn.Sel.Name
	}
	return ""
}
