package dockerapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// Image is one that the daemon has.
type Image struct {
	ID       string `json:"Id"`
	RepoTags []string
	Config   struct {
		User string
	}
}

// Image describes an image by its name or id.
func (c *Client) Image(ctx context.Context, ref string) (*Image, error) {
	var out Image
	if err := c.call(ctx, http.MethodGet, "/images/"+ref+"/json", nil, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// RemoveImage removes an image that no container uses.
func (c *Client) RemoveImage(ctx context.Context, ref string) error {
	return c.call(ctx, http.MethodDelete, "/images/"+ref, nil, nil, nil)
}

// Auth is who one is at a registry.
type Auth struct {
	Username string
	Password redact.Secret
	Email    string
	Server   string
	Token    redact.Secret // that identifies by itself
}

func (a *Auth) header() http.Header {
	if a == nil {
		return nil
	}
	text, err := json.Marshal(map[string]string{
		"username":      a.Username,
		"password":      a.Password.Reveal(),
		"email":         a.Email,
		"serveraddress": a.Server,
		"identitytoken": a.Token.Reveal(),
	})
	if err != nil {
		panic(err) // texts can always be written
	}
	return http.Header{"X-Registry-Auth": {base64.URLEncoding.EncodeToString(text)}}
}

// Progress is what a daemon says while it pulls or loads an image.
type Progress struct {
	ID     string `json:"id"` // of a layer
	Status string `json:"status"`
	Stream string `json:"stream"`
	Error  string `json:"error"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// Pull has the daemon fetch an image from its registry, and calls fn for all that it says meanwhile.
func (c *Client) Pull(ctx context.Context, name, tag string, auth *Auth, fn func(Progress)) error {
	query := url.Values{"fromImage": {name}, "tag": {tag}}
	res, err := c.open(ctx, http.MethodPost, "/images/create", query, nil, auth.header())
	if err != nil {
		return err
	}
	return c.progress(ctx, res, fn)
}

// Load gives the daemon an archive of images, and calls fn for all that it says meanwhile.
func (c *Client) Load(ctx context.Context, archive io.Reader, fn func(Progress)) error {
	header := http.Header{"Content-Type": {"application/x-tar"}}
	res, err := c.open(ctx, http.MethodPost, "/images/load", url.Values{"quiet": {"0"}}, archive, header)
	if err != nil {
		return err
	}
	return c.progress(ctx, res, fn)
}

// Import makes an image of an archive of its files. changes are lines of a Dockerfile.
func (c *Client) Import(ctx context.Context, name, tag string, archive io.Reader, changes ...string) error {
	header := http.Header{"Content-Type": {"application/x-tar"}}
	query := url.Values{"fromSrc": {"-"}, "repo": {name}, "tag": {tag}, "changes": changes}
	res, err := c.open(ctx, http.MethodPost, "/images/create", query, archive, header)
	if err != nil {
		return err
	}
	return c.progress(ctx, res, func(Progress) {})
}

func (c *Client) progress(ctx context.Context, res *http.Response, fn func(Progress)) error {
	defer func() { _ = res.Body.Close() }() // it was read
	for d := json.NewDecoder(res.Body); ; {
		var p Progress
		err := d.Decode(&p)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return c.unreachable(ctx, err)
		case p.Error != "":
			return fault.New(saidKind(p.Error, fault.Unavailable), "", "Docker", p.Error)
		}
		fn(p)
	}
}

// saidKind judges what a daemon says where it has no status for it, as in the middle of a pull. While an image is
// removed its layers go before its name: it is not there any more, and can be pulled.
func saidKind(text string, otherwise fault.Kind) fault.Kind {
	for part, kind := range map[string]fault.Kind{
		"unauthorized":         fault.Denied,
		"access denied":        fault.Denied,
		"no basic auth":        fault.Denied,
		"manifest for":         fault.NotFound,
		"manifest unknown":     fault.NotFound,
		"layer does not exist": fault.NotFound,
	} {
		if strings.Contains(text, part) {
			return kind
		}
	}
	return otherwise
}
