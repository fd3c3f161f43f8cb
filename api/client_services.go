package api

import (
	"context"
	"net/http"
)

// Services are the endpoints of services that the servers tell of.
type Services struct{ c *Client }

// Services returns the endpoints of services that the servers tell of.
func (c *Client) Services() Services { return Services{c} }

// List returns the services that are found, by namespace.
func (s Services) List(ctx context.Context, o *QueryOptions) ([]*ServiceRegistrationListStub, *QueryMeta, error) {
	var out []*ServiceRegistrationListStub
	meta, err := s.c.do(ctx, newCall(http.MethodGet, "services").read(o), &out)
	return out, meta, err
}

// Get returns who is found under a name.
func (s Services) Get(ctx context.Context, name string, o *QueryOptions) ([]*ServiceRegistration, *QueryMeta, error) {
	var out []*ServiceRegistration
	meta, err := s.c.do(ctx, newCall(http.MethodGet, "service", name).read(o), &out)
	return out, meta, err
}

// Delete takes a registration away.
func (s Services) Delete(ctx context.Context, name, id string, o *WriteOptions) error {
	_, err := s.c.do(ctx, newCall(http.MethodDelete, "service", name, id).write(o), nil)
	return err
}
