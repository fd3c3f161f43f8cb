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
			Way: HTTP, URL: "https://h/a", Name: "a", Sum: Checksum{Type: "sha256", Hex: sum},
		},
		"https://h/a?checksum=" + sum: {
			Way: HTTP, URL: "https://h/a", Name: "a", Sum: Checksum{Type: "sha256", Hex: sum},
		},
		"https://h/d/a.txz?checksum=file:SHA256SUMS": {
			Way:     HTTP,
			URL:     "https://h/d/a.txz",
			Name:    "a.txz",
			Archive: "txz",
			Sum:     Checksum{File: "https://h/d/SHA256SUMS"},
		},
		"https://h/a.zst?checksum=file:https://o/sums?x=y": {
			Way:     HTTP,
			URL:     "https://h/a.zst",
			Name:    "a.zst",
			Archive: "zst",
			Sum:     Checksum{File: "https://o/sums?x=y"},
		},
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

// Given an address that is written in a way of its own, when it is read, then it is asked as it is written: only our
// options are taken off.
func TestAnAddressIsAskedAsItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"https://h/projects/group%2Fproj/x.bin?file=a%20b&flag&archive=false&sig=a%2Bb;c=d": "" +
			"https://h/projects/group%2Fproj/x.bin?file=a%20b&flag&sig=a%2Bb;c=d",
		"https://h/a%2f%2Fb?x=%zz&%61rchive=false": "https://h/a%2f%2Fb?x=%zz",
		"https://h/a.zip//d%20e?b=1&a=2":           "https://h/a.zip?b=1&a=2",
		"git::https://h/a%2Fb.git?ref=x&z=~&y":     "https://h/a%2Fb.git?z=~&y",
		"https://h/a?":                             "https://h/a",
	} {
		got, err := Parse(text, nil)
		if err != nil || got.URL != want {
			t.Errorf("%s is asked as %+v %v, want %s", text, got, err, want)
		}
	}
	got, err := Parse("https://h/a?x=1&x=2&y=%20", map[string]string{"x": "a b", "filename": "f"})
	if err != nil || got.URL != "https://h/a?y=%20&x=a+b" || got.Name != "f" {
		t.Errorf("with options it is %+v %v", got, err)
	}
}

// Given a source that no node can fetch, when it is read, then it is refused with the reason and the way out, and no
// password or value of an option stands in what is said.
func TestWhatNoNodeFetchesIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                          `nothing is fetched by ""`,
		"/etc/passwd":                               `nothing is fetched by ""`,
		"file:///etc/passwd":                        "use a host volume",
		"s3://b/k":                                  "s3::https://s3.REGION",
		"s3::https://h/b/k?aws_access_key_id=x":     "of its keys one is missing",
		"s3::https://h/b/k?aws_profile=x":           "file of the node",
		"s3::https://h/b/":                          "names no object",
		"ftp://h/a":                                 `nothing is fetched by "ftp"`,
		"git::ssh://git@h/r":                        "git is asked over https alone",
		"git::file:///srv/r":                        "files of the node",
		"https:///a":                                "it names no host",
		"https://h/a.zip//../x":                     "leads out of it",
		"https://h/a?archive=rar":                   `of the form "rar" are not unpacked`,
		"https://h/a?checksum=sha256:ab":            "is none",
		"https://h/a?checksum=zz":                   "is none",
		"https://h/a?checksum=file:":                "comes from an address alone",
		"https://h/a?checksum=file:file:///x":       "comes from an address alone",
		"https://h/a?checksum=file:ftp://h/x":       "comes from an address alone",
		"gs://b/k":                                  "gcs::https://",
		"hg::https://h/r":                           "Mercurial is not called",
		"git@github.com:o/r.git":                    "it is no address",
		"https://u:secret@h/a?archive=rar&k=secret": "are not unpacked",
		"git::https://h/r?ref=--upload-pack":        "is no name of a commit",
		"git::https://h/r?depth=x":                  "is no number above 0",
		"git::https://h/r?sshkey=x":                 "is not for git",
	} {
		_, err := Parse(text, nil)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			strings.Contains(strings.ReplaceAll(err.Error(), "aws_access_key_secret", ""), "secret") {
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

// Given a list of checksums in the forms that programs write, when a file is looked for, then its own line is found,
// and a list that has it not is refused.
func TestAListHasTheChecksumOfAFile(t *testing.T) {
	long, short := strings.Repeat("ab", 32), strings.Repeat("cd", 16)
	want := Checksum{Type: "sha256", Hex: long}
	for list, found := range map[string]bool{
		long + "  other\n" + long + "  f\n": true,
		long + " *./d/f\n":                  true,
		"SHA256 (f) = " + long + "\n":       true,
		"SHA2 (f) = " + long + "\n":         false,
		"SHA256 (f (1)) = " + long + "\n":   false,
		"MD5 (f) = " + long:                 false,
		strings.ToUpper(long) + "\n":        true,
		long + "\n" + long + "\n":           false,
		long + "  ff\n":                     false,
		"# comment\n\n" + long + "\tf":      false,
		"":                                  false,
		"zz  f\n":                           false,
	} {
		got, err := SumIn([]byte(list), "f")
		if found && (err != nil || got != want) || !found && !fault.Has(err, fault.Invalid) {
			t.Errorf("%q has %+v %v", list, got, err)
		}
	}
	if got, err := SumIn([]byte("MD5 (f) = "+short), "f"); err != nil || got.Type != "md5" {
		t.Errorf("another kind: %+v %v", got, err)
	}
}

// Given the forms in which people write objects of stores, when they are read, then it says where they are asked for,
// with which keys, and in which region; keys and tokens stand in no address.
func TestWhereAnObjectLies(t *testing.T) {
	const keys = "aws_access_key_id=AK&aws_access_key_secret=SK"
	const eu = "eu-west-1"
	for text, want := range map[string]struct{ url, region string }{
		"s3::https://s3.amazonaws.com/b/k?" + keys:              {"https://s3.amazonaws.com/b/k", "us-east-1"},
		"s3.amazonaws.com/b/k?" + keys:                          {"https://s3.amazonaws.com/b/k", "us-east-1"},
		"s3::https://s3-eu-west-1.amazonaws.com/b/k?" + keys:    {"https://s3-eu-west-1.amazonaws.com/b/k", eu},
		"b.s3.eu-west-1.amazonaws.com/d/k?" + keys:              {"https://b.s3.eu-west-1.amazonaws.com/d/k", eu},
		"s3::http://minio:9000/b/k?region=x&" + keys:            {"http://minio:9000/b/k", "x"},
		"s3::http://minio:9000/b/k?version=7&" + keys:           {"http://minio:9000/b/k?versionId=7", "us-east-1"},
		"s3::https://s3.amazonaws.com/b/k":                      {"https://s3.amazonaws.com/b/k", ""},
		"gcs::https://www.googleapis.com/storage/v1/b/d/k?g=1":  {"https://storage.googleapis.com/b/d/k?g=1", ""},
		"www.googleapis.com/storage/v1/b/k?access_token=canary": {"https://storage.googleapis.com/b/k", ""},
		"gcs::http://emulator/storage/v1/b/k%20l":               {"http://emulator/b/k%20l", ""},
	} {
		s, err := Parse(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		region := ""
		if s.Signing != nil {
			region = s.Signing.Region
		}
		if s.Way != HTTP || s.URL != want.url || region != want.region {
			t.Errorf("%s: %s in %q", text, s.URL, region)
		}
		if s.Signing != nil && (s.Signing.Keys.ID != "AK" || s.Signing.Keys.Secret.Reveal() != "SK") {
			t.Errorf("%s: signed with %+v", text, s.Signing.Keys)
		}
		if strings.Contains(text, "canary") != (s.Bearer.Reveal() == "canary") {
			t.Errorf("%s: its token is %q", text, s.Bearer)
		}
	}
}
