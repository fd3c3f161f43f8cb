package api

import (
	"context"
	"net/http"
)

// CA tells which roots are trusted.
func (a Operator) CA(ctx context.Context, o *QueryOptions) (*CA, *QueryMeta, error) {
	return get[CA](ctx, a.c, o, "operator", "ca")
}

// RotateCA replaces the root by a new one. That before is trusted for 90 days, or until FinishCA.
func (a Operator) RotateCA(ctx context.Context, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "ca", "rotate").write(o), nil)
	return err
}

// FinishCA has the roots before the present one forgotten.
func (a Operator) FinishCA(ctx context.Context, req *CAFinishRequest, o *WriteOptions) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "ca", "finish").write(o).json(req), nil)
	return err
}
