package consul

import (
	"context"
	"net/http"
	"net/url"

	"berth/internal/base/fault"
)

// Find reads an object of the access lists, by its path beneath /v1/acl; false: there is none.
func (a *Agent) Find(ctx context.Context, path string, query url.Values, into any) (bool, error) {
	_, err := a.call(ctx, request{path: "/v1/acl/" + path, query: query, into: into})
	if fault.Has(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// Write writes an object of the access lists, by its path beneath /v1/acl: a new one, or in place of another.
func (a *Agent) Write(ctx context.Context, path string, object any) error {
	_, err := a.call(ctx, request{method: http.MethodPut, path: "/v1/acl/" + path, body: object})
	return err
}
