// Package sigv4 owns how a request for an object of Amazon's store, or of what is like it, is signed: AWS Signature
// Version 4, as "Signature Calculations for the Authorization Header" of the store's API reference says. It asks
// nobody, and knows no keys but those that it is given.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/internal/base/redact"
)

// Keys sign. Token is of keys that are good for a while; empty: they are not.
type Keys struct {
	ID            string
	Secret, Token redact.Secret `json:"-"`
}

// Sign signs a request without a body, for a region, at a time.
func Sign(r *http.Request, k Keys, region string, now time.Time) {
	at := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", at)
	r.Header.Set("X-Amz-Content-Sha256", hash("")) // of no body
	if !k.Token.Empty() {
		r.Header.Set("X-Amz-Security-Token", k.Token.Reveal())
	}
	headers := map[string]string{"host": r.URL.Host}
	if r.Host != "" {
		headers["host"] = r.Host
	}
	for name, values := range r.Header {
		if name = strings.ToLower(name); name == "range" || strings.HasPrefix(name, "x-amz-") {
			headers[name] = strings.TrimSpace(strings.Join(values, ","))
		}
	}
	names := slices.Sorted(maps.Keys(headers))
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(name + ":" + headers[name] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{
		r.Method, path(r.URL), query(r.URL), lines.String(), signed, r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
	scope := strings.Join([]string{at[:8], region, "s3", "aws4_request"}, "/")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hash(canonical)}, "\n")
	key := []byte("AWS4" + k.Secret.Reveal())
	for _, part := range []string{at[:8], region, "s3", "aws4_request", toSign} {
		key = code(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", k.ID,
		scope, signed, hex.EncodeToString(key)))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func code(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// path is the path of an address, each of its characters escaped that the signature wants escaped.
func path(u *url.URL) string {
	if u.Path == "" {
		return "/"
	}
	return escape(u.Path, true)
}

// query is the query of an address in the order of its names, and of their values.
func query(u *url.URL) string {
	var pairs []string
	for name, values := range u.Query() { // any order: they are sorted
		for _, value := range values {
			pairs = append(pairs, escape(name, false)+"="+escape(value, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func escape(text string, slashes bool) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte("-._~", b) >= 0,
			b == '/' && slashes:
			out.WriteByte(b)
		default:
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}
