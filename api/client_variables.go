package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Variables are the endpoints of variables.
type Variables struct{ c *Client }

// Variables returns the endpoints of variables.
func (c *Client) Variables() Variables { return Variables{c} }

// VariableConflict is why a write was not made: what is there is not what the writer took it for.
type VariableConflict struct {
	Found *Variable // what is there; its items only for who may read them
	Err   error
}

// Error implements error.
func (e *VariableConflict) Error() string {
	return fmt.Sprintf("variable %q was written by somebody else (index %d), or is locked", e.Found.Path,
		e.Found.ModifyIndex)
}

// Unwrap returns the reply's own error.
func (e *VariableConflict) Unwrap() error { return e.Err }

// List returns the variables that the caller may list, without what they hold.
func (v Variables) List(ctx context.Context, o *QueryOptions) ([]*VariableMetadata, *QueryMeta, error) {
	var out []*VariableMetadata
	meta, err := v.c.do(ctx, newCall(http.MethodGet, "vars").read(o), &out)
	return out, meta, err
}

// Get returns a variable with what it holds.
func (v Variables) Get(ctx context.Context, path string, o *QueryOptions) (*Variable, *QueryMeta, error) {
	var out Variable
	meta, err := v.c.do(ctx, at(http.MethodGet, path).read(o), &out)
	return &out, meta, err
}

// Put writes what a variable holds; by its lock, if it has the id of one. check is the index that it has to have, 0 for
// none at all; nil: whatever is there. What meets another write is a *VariableConflict.
func (v Variables) Put(ctx context.Context, in *Variable, check *uint64, o *WriteOptions) (*Variable, error) {
	return v.write(ctx, checked(at(http.MethodPut, in.Path).write(o), check).json(in), in.Path)
}

// Delete removes a variable.
func (v Variables) Delete(ctx context.Context, path string, check *uint64, o *WriteOptions) error {
	_, err := v.c.do(ctx, checked(at(http.MethodDelete, path).write(o), check), nil)
	return conflict(err, path)
}

// Acquire takes the lock of a variable, which is made if there is none; its Lock says for how long.
func (v Variables) Acquire(ctx context.Context, in *Variable, o *WriteOptions) (*Variable, error) {
	return v.lock(ctx, in, "lock-acquire", o)
}

// Renew lets a lock hold for its whole TTL again.
func (v Variables) Renew(ctx context.Context, in *Variable, o *WriteOptions) (*Variable, error) {
	return v.lock(ctx, in, "lock-renew", o)
}

// Release gives a lock back.
func (v Variables) Release(ctx context.Context, in *Variable, o *WriteOptions) (*Variable, error) {
	return v.lock(ctx, in, "lock-release", o)
}

func (v Variables) lock(ctx context.Context, in *Variable, verb string, o *WriteOptions) (*Variable, error) {
	return v.write(ctx, at(http.MethodPut, in.Path).write(o).setBool(verb, true).json(in), in.Path)
}

func (v Variables) write(ctx context.Context, r *call, path string) (*Variable, error) {
	var out Variable
	_, err := v.c.do(ctx, r, &out)
	return &out, conflict(err, path)
}

// at is a call about the variable at a path.
func at(method, path string) *call {
	return newCall(method, append([]string{"var"}, strings.Split(path, "/")...)...)
}

func checked(r *call, index *uint64) *call {
	if index != nil {
		r.set("cas", strconv.FormatUint(*index, 10))
	}
	return r
}

// conflict reads what is there from the answer to a write that met another one.
func conflict(err error, path string) error {
	var answer *StatusError
	if !errors.As(err, &answer) || answer.Code != http.StatusConflict {
		return err
	}
	found := &Variable{Path: path}
	if json.Unmarshal([]byte(answer.Body), found) != nil {
		return err // it is another answer than that of a server
	}
	return &VariableConflict{Found: found, Err: err}
}
