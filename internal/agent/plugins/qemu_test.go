package plugins

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/testkit/reference"
	"berth/jobspec/listing"
)

// Given the block of the driver qemu, then its page has each of its settings, and the names that are refused.
func TestThePageOfQemusBlockIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	section := p.Section("The block of qemu")
	var there []string
	for _, e := range listing.Of("qemu", reflect.TypeFor[QemuOptions](), nil) {
		there = append(there, e.Name)
	}
	p.Same("a setting of qemu", reference.Column(section.Rows, 0), there)
	for _, list := range section.Lists() {
		p.Same("a setting that is refused", list, slices.Sorted(maps.Keys(qemuRefusals)))
	}
}

// Given places for images that are none, then they are refused by name; and others reach the driver.
func TestQemusBlockIsJudged(t *testing.T) {
	of := func(paths ...string) Plugin {
		return Plugin{Name: "qemu", Qemu: &Qemu{Config: &QemuOptions{ImagePaths: paths}}}
	}
	for _, path := range []string{"images", "/", "/srv/.."} {
		p := of("/srv", path)
		if err := p.Check(""); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "image_paths") {
			t.Errorf("%s: %v", path, err)
		}
	}
	p := of("/srv/images", "/srv/one.img")
	if paths, err := p.Images(); err != nil || !slices.Equal(paths, []string{"/srv/images", "/srv/one.img"}) {
		t.Errorf("they become %q, %v", paths, err)
	}
}
