package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

// namespaceHeader is sent by some clients beside the query, which is what counts.
const namespaceHeader = "X-Nomad-Namespace"

// Legible refuses requests that name nothing: ids and paths are text, and no file name has a zero byte. A path that
// means another one is refused as well: clients follow a redirect, and would write what was not named.
func Legible(r *http.Request) error {
	text, err := url.QueryUnescape(r.URL.RawQuery)
	switch text = r.URL.Path + text; {
	case err != nil:
		return fmt.Errorf("the query of the address cannot be read: %w", err)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("the address is not UTF-8, or has a zero byte")
	case !utf8.ValidString(r.Header.Get(namespaceHeader)):
		return errors.New("the header " + namespaceHeader + " is not UTF-8")
	}
	if p := r.URL.EscapedPath(); strings.HasPrefix(p, "/") && path.Clean(p) != p && path.Clean(p)+"/" != p {
		return fmt.Errorf("the path %s has an empty part, or one that is . or ..; leave it out", p)
	}
	return nil
}

// Vary is what of a request an answer of the path depends on, for caches between. Pages of a browser ask for what nodes
// and variables say: one origin's is not answered with what another one has asked for.
func Vary(path string) []string {
	if strings.HasPrefix(path, "/v1/client/") || strings.HasPrefix(path, "/v1/var") {
		return []string{"Accept-Encoding", "Origin"}
	}
	return []string{"Accept-Encoding"}
}
