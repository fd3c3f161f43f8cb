package artifact

import (
	"net/url"
	"strings"

	"berth/internal/base/pattern"
	"berth/internal/base/redact"
	"berth/internal/base/sigv4"
)

// Signing is how requests for an object of Amazon's store, or of what is like it, are signed.
type Signing struct {
	Keys   sigv4.Keys
	Region string
}

// Ways of saying that a source is an object of a store. It is fetched by http.
const (
	ofS3  = "s3"
	ofGCS = "gcs"
)

// s3Host are the hosts of Amazon's store, with the region that they name, if they do.
var s3Host = pattern.Of(`^(?:.+\.)?s3[.-]?(?:dualstack\.)?([a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?$`)

// store is the store that a source without a scheme is an object of; empty: none.
func store(text string) string {
	host, _, _ := strings.Cut(text, "/")
	switch {
	case s3Host().MatchString(host):
		return ofS3
	case host == "www.googleapis.com" || host == "storage.googleapis.com":
		return ofGCS
	}
	return ""
}

// object takes the options off the query that are for a store, and says how it is asked.
func (s *Source) object(source, of string, u *url.URL, query *pairs) error {
	if strings.Trim(u.Path, "/") == "" || strings.HasSuffix(u.Path, "/") {
		return bad(source, "it names no object", "write the bucket and the object's name; many objects as an archive")
	}
	if of == ofS3 {
		return s.s3(source, u, query)
	}
	// The address of one form of the interface is that of the object by another, which all libraries ask.
	if rest, is := strings.CutPrefix(u.EscapedPath(), "/storage/v1/"); is {
		path, err := url.PathUnescape(rest)
		if err != nil {
			return bad(source, "its path is no path", "write % as %25")
		}
		u.Path, u.RawPath = "/"+path, "/"+rest
		if u.Host == "www.googleapis.com" {
			u.Host = "storage.googleapis.com"
		}
	}
	token, _ := query.take("access_token")
	s.Bearer = redact.New(token)
	return nil
}

func (s *Source) s3(source string, u *url.URL, query *pairs) error {
	take := func(name string) string {
		value, _ := query.take(name)
		return value
	}
	if take("aws_profile") != "" {
		return bad(source, "aws_profile names a file of the node, which is not read",
			"write aws_access_key_id and aws_access_key_secret")
	}
	out := Signing{
		Keys: sigv4.Keys{
			ID:     take("aws_access_key_id"),
			Secret: redact.New(take("aws_access_key_secret")),
			Token:  redact.New(take("aws_access_token")),
		},
		Region: take("region"),
	}
	if version := take("version"); version != "" {
		*query = append(*query, "versionId="+url.QueryEscape(version))
	}
	if (out.Keys.ID == "") != out.Keys.Secret.Empty() || !out.Keys.Token.Empty() && out.Keys.ID == "" {
		return bad(source, "of its keys one is missing",
			"write both aws_access_key_id and aws_access_key_secret, or neither for a public object")
	}
	if m := s3Host().FindStringSubmatch(u.Hostname()); m != nil && out.Region == "" {
		out.Region = m[1]
	}
	if out.Region == "" {
		out.Region = "us-east-1"
	}
	if out.Keys.ID != "" {
		s.Signing = &out
	}
	return nil
}
