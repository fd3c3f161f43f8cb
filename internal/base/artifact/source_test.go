package artifact

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given what people write as a source, when it is read, then it says what is fetched from where, and what is expected
// of it; options are those of the query, and what is ours among them is told to nobody else.
func TestWhatASourceSays(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	const tar = "a.tar.gz"
	for text, want := range map[string]Source{
		"https://h/a/b.bin":         {Way: HTTP, URL: "https://h/a/b.bin", Name: "b.bin"},
		"https://h/a.zip?archive=0": {Way: HTTP, URL: "https://h/a.zip", Name: "a.zip"},
		"http://h/a.tar.gz//sub/x": {
			Way:     HTTP,
			URL:     "http://h/a.tar.gz",
			Name:    tar,
			Archive: "tar.gz",
			Sub:     "sub/x",
		},
		"https://h/a?archive=zip&x=y&filename=z": {Way: HTTP, URL: "https://h/a?x=y", Name: "z", Archive: "zip"},
		"https://h/a?checksum=sha256:" + sum: {
			Way: HTTP, URL: "https://h/a", Name: "a", Sum: Checksum{"sha256", sum},
		},
		"https://h/a?checksum=" + sum: {Way: HTTP, URL: "https://h/a", Name: "a", Sum: Checksum{"sha256", sum}},
		"git::https://h/r.git//d?ref=v1&depth=1": {
			Way:   Git,
			URL:   "https://h/r.git",
			Name:  "r.git",
			Sub:   "d",
			Ref:   "v1",
			Depth: 1,
		},
		"github.com/o/r": {Way: Git, URL: "https://github.com/o/r.git", Name: "r.git"},
		"github.com/o/r//d/e?ref=x": {
			Way:  Git,
			URL:  "https://github.com/o/r.git",
			Name: "r.git",
			Sub:  "d/e",
			Ref:  "x",
		},
	} {
		if got, err := Parse(text, nil); err != nil || *got != want {
			t.Errorf("%s is\n%+v %v, want\n%+v", text, got, err, want)
		}
	}
	got, err := Parse("https://h/a?archive=zip", map[string]string{"archive": "false", "token": "s"})
	if err != nil || got.Archive != "" || got.URL != "https://h/a?token=s" {
		t.Errorf("options are not those of the query: %+v %v", got, err)
	}
}

// Given a source that no node can fetch, when it is read, then it is refused with the reason and the way out, and no
// password or value of an option stands in what is said.
func TestWhatNoNodeFetchesIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                   `nothing is fetched by ""`,
		"/etc/passwd":                        `nothing is fetched by ""`,
		"file:///etc/passwd":                 "use a host volume",
		"s3::https://s3.amazonaws.com/b/k":   "presigned",
		"ftp://h/a":                          `nothing is fetched by "ftp"`,
		"git::ssh://git@h/r":                 "git is asked over https alone",
		"git::file:///srv/r":                 "files of the node",
		"https:///a":                         "it names no host",
		"https://h/a.zip//../x":              "leads out of it",
		"https://h/a.tar.xz":                 "pack it as tar.gz or zip",
		"https://h/a?archive=rar":            `of the form "rar" are not unpacked`,
		"https://h/a?checksum=sha256:ab":     "is none",
		"https://h/a?checksum=zz":            "is none",
		"https://h/a?checksum=file:http://x": "a file of checksums is not fetched",
		"git::https://h/r?ref=--upload-pack": "is no name of a commit",
		"git::https://h/r?depth=x":           "is no number above 0",
		"git::https://h/r?sshkey=x":          "is not for git",
		"https://u:secret@h/a.xz?k=secret":   "pack it",
	} {
		_, err := Parse(text, nil)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// Given a source and a mode that do not go together, when they are held against each other, then that is refused.
func TestAModeAsksForWhatTheSourceIs(t *testing.T) {
	for _, c := range []struct {
		source, mode string
		fits         bool
	}{
		{"https://h/a", Any, true}, {"https://h/a", File, true}, {"https://h/a", Dir, false},
		{"https://h/a.gz", Dir, false}, {"https://h/a.zip", Dir, true}, {"https://h/a.zip", File, true},
		{"git::https://h/r", Any, true}, {"git::https://h/r", File, false}, {"git::https://h/r//f", File, true},
		{"https://h/", Any, false}, {"https://h", File, false}, {"https://h/?filename=a/b", Any, false},
	} {
		s, err := Parse(c.source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fits(c.mode); (err == nil) != c.fits {
			t.Errorf("%s as %s: %v", c.source, c.mode, err)
		}
	}
}
