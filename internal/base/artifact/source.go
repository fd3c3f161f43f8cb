// Package artifact owns what a source of an artifact says: from where, by which way of fetching, and what is expected
// of what is fetched. Servers refuse by it what no node can fetch, and nodes fetch by it. It asks nobody.
package artifact

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// Ways of fetching.
const (
	HTTP = "http" // http and https
	Git  = "git"  // by the node's git, from http and https
)

// Modes say what is expected: a file, a directory, or what there is.
const (
	Any  = "any"
	File = "file"
	Dir  = "dir"
)

// Modes lists them.
var Modes = []string{Any, File, Dir}

// Archives lists the forms of archives and of packed files that are unpacked.
var Archives = []string{"tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "txz", "tar.zst", "tzst", "tar", "zip", "gz",
	"bz2", "xz", "zst"}

// Source is what is fetched, and how.
type Source struct {
	Way  string
	URL  string // http or https
	Sub  string // of the archive or the repository that is meant; empty: all of it
	Name string // of a file that is no archive

	Archive string   // its form; empty: it is no archive
	Sum     Checksum // of the file as it is fetched
	Ref     string   // git: a branch, a tag, or a commit
	Depth   int      // git: how much of the history; 0: all of it

	Signing *Signing      // how its host is asked; nil: without keys
	Bearer  redact.Secret `json:"-"` // a token for its host; empty: there is none
}

// hosted are hosts whose repositories may be named without a scheme.
var hosted = []string{"github.com/", "gitlab.com/", "bitbucket.org/"}

// refused are schemes and ways of fetching that others have, with the reason.
var refused = map[string]string{
	"file": "files of the node are not for tasks; use a host volume",
	"s3":   "write s3::https://s3.REGION.amazonaws.com/BUCKET/OBJECT",
	"gs":   "write gcs::https://www.googleapis.com/storage/v1/BUCKET/OBJECT",
	"gcs":  "write gcs::https://www.googleapis.com/storage/v1/BUCKET/OBJECT",
	"ssh":  "git is asked over https alone; write https://",
	"hg":   "Mercurial is not called; have an archive made of the revision",
	"git":  "the git protocol says nothing of who answers; write git::https://",
}

// Parse reads a source with its options, whose values are those of its query. A fault of kind Invalid says what is
// wrong with it and the way out.
func Parse(source string, options map[string]string) (*Source, error) {
	s := &Source{Way: HTTP}
	text := strings.TrimSpace(source)
	of := store(text)
	if of != "" {
		text = "https://" + text
	}
	if way, rest, forced := strings.Cut(text, "::"); forced && !strings.ContainsAny(way, ":/?") {
		text = rest
		switch way {
		case Git:
			s.Way = Git
		case ofS3, ofGCS:
			of = way
		case "http", "https":
		default:
			return nil, unknown(source, way)
		}
	}
	for _, host := range hosted {
		if rest, is := strings.CutPrefix(text, host); is {
			text = repository(host, rest)
			s.Way = Git
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, bad(source, "it is no address", "write https://HOST/PATH")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, unknown(source, u.Scheme)
	case u.Hostname() == "":
		return nil, bad(source, "it names no host", "write https://HOST/PATH")
	}
	if err := s.divide(source, u); err != nil {
		return nil, err
	}
	pairs := query(u.RawQuery)
	for _, name := range slices.Sorted(maps.Keys(options)) {
		pairs.take(name)
		pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(options[name]))
	}
	if of != "" {
		if err := s.object(source, of, u, &pairs); err != nil {
			return nil, err
		}
	}
	if err := s.options(source, u, &pairs); err != nil {
		return nil, err
	}
	u.RawQuery, u.ForceQuery = strings.Join(pairs, "&"), false
	u.Fragment, u.RawFragment = "", ""
	s.URL = u.String()
	return s, nil
}

// repository is the address of OWNER/NAME//SUB?QUERY at a host.
func repository(host, rest string) string {
	rest, query, _ := strings.Cut(rest, "?")
	parts := strings.SplitN(rest, "/", 3)
	at := "https://" + host + parts[0]
	if len(parts) > 1 {
		at += "/" + strings.TrimSuffix(parts[1], ".git") + ".git"
	}
	if len(parts) > 2 && strings.Trim(parts[2], "/") != "" {
		at += "//" + strings.Trim(parts[2], "/")
	}
	if query != "" {
		at += "?" + query
	}
	return at
}

// divide takes the part after // off the path: what is meant of an archive or a repository.
func (s *Source) divide(source string, u *url.URL) error {
	at, sub, _ := strings.Cut(u.EscapedPath(), "//")
	sub, err := url.PathUnescape(sub)
	if err == nil {
		u.Path, err = url.PathUnescape(at)
	}
	if err != nil {
		return bad(source, "its path is no path", "write % as %25")
	}
	if slices.Contains(strings.Split(sub, "/"), "..") {
		return bad(source, fmt.Sprintf("the part %q of it leads out of it", sub), "name a path beneath it")
	}
	u.RawPath = at // whoever is asked reads it as it is written
	s.Sub, s.Name = strings.Trim(path.Clean("/"+sub), "/"), path.Base(u.Path)
	return nil
}

// pairs are those of a query as they are written. Whoever is asked may take another form of one for another value, or
// for another signature than the right one.
type pairs []string

func query(raw string) pairs {
	if raw == "" {
		return nil
	}
	return strings.Split(raw, "&")
}

// take removes all of a name, and returns the value of the first; false: there is none.
func (p *pairs) take(name string) (value string, has bool) {
	*p = slices.DeleteFunc(*p, func(pair string) bool {
		key, text, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			return false
		}
		if plain, err := url.QueryUnescape(text); err == nil && !has {
			value, has = plain, true
		}
		return true
	})
	return value, has
}

// options takes those that are ours off the query; others go to whoever is asked.
func (s *Source) options(source string, u *url.URL, query *pairs) error {
	take := func(name string) string {
		value, _ := query.take(name)
		return value
	}
	if s.Way == Git {
		s.Ref = take("ref")
		if text := take("depth"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return bad(source, fmt.Sprintf("depth %q is no number above 0", text), "leave it out for all history")
			}
			s.Depth = n
		}
		if strings.HasPrefix(s.Ref, "-") {
			return bad(source, fmt.Sprintf("ref %q is no name of a commit", s.Ref), "name a branch, a tag or a commit")
		}
		for name, why := range map[string]string{"sshkey": "keys are for ssh", "checksum": "a repository has none"} {
			if _, has := query.take(name); has {
				return bad(source, why+": "+name+" is not for git", "leave it out; ref names a commit")
			}
		}
		return nil
	}
	if name := take("filename"); name != "" {
		s.Name = name
	}
	var err error
	if s.Sum, err = checksum(source, u, take("checksum")); err != nil {
		return err
	}
	return s.archive(source, u.Path, take("archive"))
}

// archive says which form is unpacked: the one that was named, or by the ending of the path.
func (s *Source) archive(source, at, asked string) error {
	if asked == "false" || asked == "0" {
		return nil
	}
	if asked != "" && asked != "true" {
		if !slices.Contains(Archives, asked) {
			return bad(source, fmt.Sprintf("archives of the form %q are not unpacked", asked),
				"there are "+strings.Join(Archives, ", ")+", and false")
		}
		s.Archive = asked
		return nil
	}
	for _, form := range Archives {
		if strings.HasSuffix(at, "."+form) {
			s.Archive = form
			return nil
		}
	}
	return nil
}

// singles are the forms of one file that was made smaller.
var singles = []string{"gz", "bz2", "xz", "zst"}

// Packed reports whether the source's archive is one file that was made smaller, and the file's name without the
// ending.
func (s *Source) Packed() (name string, packed bool) {
	return strings.TrimSuffix(s.Name, "."+s.Archive), slices.Contains(singles, s.Archive)
}

// Fits reports why what a source is cannot be what a mode asks for.
func (s *Source) Fits(mode string) error {
	_, packed := s.Packed()
	switch {
	case mode == Dir && s.Way == HTTP && (s.Archive == "" || packed):
		return fault.WithHint(
			fault.New(fault.Invalid, "", "", "with mode = \"dir\" it must be an archive or a repository"),
			"name an archive; or write mode = \"file\"")
	case mode == File && s.Way == Git && s.Sub == "":
		return fault.WithHint(
			fault.New(fault.Invalid, "", "", "with mode = \"file\" it must be a file, not a repository"),
			"name one in it after //; or write mode = \"dir\"")
	case mode != Dir && s.Way == HTTP && s.Archive == "" && !plain(s.Name):
		return fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf("%q is no name of a file", s.Name)),
			"name the file by the option filename")
	}
	return nil
}

// plain reports whether a name is that of a file in a directory.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

func unknown(source, scheme string) error {
	if why := refused[scheme]; why != "" {
		return bad(source, fmt.Sprintf("nothing is fetched by %q", scheme), why)
	}
	return bad(source, fmt.Sprintf("nothing is fetched by %q", scheme),
		"write an address with http:// or https://, or git::https:// for a repository")
}

func bad(source, what, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", fmt.Sprintf("source %q", Shown(source)), what), hint)
}

// Shown is a source as events and errors may say it: without what may be a secret, a password and values of options.
func Shown(source string) string {
	text, _, _ := strings.Cut(source, "?")
	if before, after, has := strings.Cut(text, "://"); has {
		host, rest, _ := strings.Cut(after, "/")
		if _, only, with := strings.Cut(host, "@"); with {
			text = before + "://" + only + "/" + rest
		}
	}
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
