package api

import (
	"context"
	"net/http"
)

// get reads what a path answers.
func get[T any](ctx context.Context, c *Client, o *QueryOptions, path ...string) (*T, *QueryMeta, error) {
	var out T
	meta, err := c.do(ctx, newCall(http.MethodGet, path...).read(o), &out)
	return &out, meta, err
}

// put sends a body to a path and reads the answer.
func put[T any](ctx context.Context, c *Client, o *WriteOptions, body any, path ...string) (*T, *QueryMeta, error) {
	var out T
	meta, err := c.do(ctx, newCall(http.MethodPut, path...).write(o).json(body), &out)
	return &out, meta, err
}
