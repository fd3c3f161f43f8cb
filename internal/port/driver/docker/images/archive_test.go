package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// packedAs is an archive of entries, with links where the text begins with an arrow.
func packedAs(t *testing.T, entries ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e[0], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(e[1]))}
		if to, link := strings.CutPrefix(e[1], "->"); link {
			h.Typeflag, h.Linkname = tar.TypeSymlink, to
			h.Size = 0
		}
		err := w.WriteHeader(h)
		if err == nil && h.Size > 0 {
			_, err = io.WriteString(w, e[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const twoImages = `[{"Config":"aa.json","RepoTags":["victim:1"],"Layers":["l/layer.tar"]},` +
	`{"Config":"bb.json","RepoTags":["docker.io/library/mine:2","victim:2"],"Layers":["m/layer.tar"]}]`

// Given an archive that names images of others in each of the ways that a daemon reads, when its names are taken out,
// then the image that is asked for is there without one, and no other; what it consists of is as it was.
func TestAnArchiveWithoutItsNames(t *testing.T) {
	archive := packedAs(t, [2]string{"l/layer.tar", "lower"}, [2]string{"m/layer.tar", "->../l/layer.tar"},
		[2]string{"here", "->."}, [2]string{"here/manifest.json", twoImages}, [2]string{"manifest.json", "->bb.json"},
		[2]string{"./manifest.json", twoImages}, [2]string{"repositories", "{}"}, [2]string{"./index.json", "{}"},
		[2]string{"oci-layout", "{}"}, [2]string{"bb.json", "{}"}, [2]string{"m/repositories", "kept"})
	var squeezed bytes.Buffer
	z := gzip.NewWriter(&squeezed)
	if _, err := z.Write(archive); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"plain": archive, "compressed": squeezed.Bytes()} {
		var out bytes.Buffer
		if err := nameless(bytes.NewReader(text), &out, reference{name: "mine", tag: "2"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		there := map[string]string{}
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			there[h.Name] = string(content) + h.Linkname
		}
		want := map[string]string{
			"l/layer.tar": "lower", "m/layer.tar": "../l/layer.tar", "here": ".", "bb.json": "{}",
			"m/repositories":  "kept",
			"./manifest.json": `[{"Config":"bb.json","RepoTags":null,"Layers":["m/layer.tar"]}]`,
		}
		if !maps.Equal(there, want) {
			t.Errorf("%s: it holds %q", name, there)
		}
	}
}

// Given archives that are none, or have not what is asked for, then that is said with the way out.
func TestArchivesThatAreRefused(t *testing.T) {
	whole := packedAs(t, [2]string{"manifest.json", twoImages})
	mine := reference{name: "mine", tag: "2"}
	for name, c := range map[string]struct {
		archive []byte
		ref     reference
		kind    fault.Kind
		says    string
	}{
		"no archive":    {bytes.Repeat([]byte("x"), 1024), mine, fault.Invalid, "docker save"},
		"empty":         {packedAs(t), mine, fault.Invalid, "no manifest.json"},
		"another image": {whole, reference{name: "mine", tag: "3"}, fault.NotFound, "victim:1"},
		"a part":        {whole[:600], mine, fault.Invalid, "manifest.json"},
		"a manifest without an end": {packedAs(t,
			[2]string{"manifest.json", twoImages + strings.Repeat(" ", maxManifest)}), mine, fault.Invalid, "larger"},
		"not JSON": {packedAs(t, [2]string{"manifest.json", "x"}), mine, fault.Invalid,
			"manifest.json"},
	} {
		err := nameless(bytes.NewReader(c.archive), io.Discard, c.ref)
		if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	id := "sha256:" + strings.Repeat("a", 64)
	byID := packedAs(t, [2]string{"manifest.json", `[{"Config":"blobs/sha256/` + strings.Repeat("a", 64) + `"}]`})
	if err := nameless(bytes.NewReader(byID), io.Discard, reference{name: id}); err != nil {
		t.Errorf("by its id: %v", err)
	}
	if !slices.Equal([]string{familiar("docker.io/library/a:1"), familiar("docker.io/b/a:1"), familiar("a:1")},
		[]string{"a:1", "b/a:1", "a:1"}) {
		t.Error("names are not as people write them")
	}
}
