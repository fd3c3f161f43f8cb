package images

import (
	"testing"

	"berth/internal/base/fault"
)

// Given names of images, then they are taken apart as Docker does.
func TestNamesOfImagesAreTakenApart(t *testing.T) {
	for text, want := range map[string]reference{
		"redis":                          {"", "redis", "latest"},
		"redis:7":                        {"", "redis", "7"},
		"docker.io/library/redis:7":      {"docker.io", "docker.io/library/redis", "7"},
		"localhost:5000/a/b":             {"localhost:5000", "localhost:5000/a/b", "latest"},
		"127.0.0.1:5000/a:1":             {"127.0.0.1:5000", "127.0.0.1:5000/a", "1"},
		"a/b@sha256:0123":                {"", "a/b", "sha256:0123"},
		"sha256:0123":                    {"", "sha256:0123", ""},
		"https://registry.example/a/b:1": {"registry.example", "registry.example/a/b", "1"},
	} {
		if got, err := parseReference(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a b", "a?b"} {
		if _, err := parseReference(text); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
