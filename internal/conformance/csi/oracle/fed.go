package oracle

import (
	"errors"
	"fmt"
	"slices"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// Fed is a fact that the record cannot tell. The zero value is a fact without a source: whoever judges without it has
// made an error.
type Fed[T any] struct {
	list   []T
	source bool
	none   string
}

// Feed is a fact with a source; it may say little, or more later by Add. The list is copied: who feeds it goes on.
func Feed[T any](list ...T) Fed[T] { return Fed[T]{list: slices.Clone(list), source: true} }

// None says that a world has nothing of a fact, and why it cannot have it.
func None[T any](why string) Fed[T] { return Fed[T]{none: why} }

// Add says more of a fact that has a source.
func (f *Fed[T]) Add(more ...T) { f.list = append(f.list, more...) }

// IsFed reports whether the fact has a source.
func (f *Fed[T]) IsFed() bool { return f.source }

// fed names what is wrong with a fact's source.
func (f *Fed[T]) fed(name string) error {
	switch {
	case !f.source && f.none == "":
		return fmt.Errorf("fact %q is not fed: say it, or say by oracle.None why this world has none of it", name)
	case !f.source && len(f.list) > 0:
		return fmt.Errorf("fact %q is said not to exist (%s), and then it is %v", name, f.none, f.list)
	}
	return nil
}

// Around is a fact that a proxy's witness observes with single calls.
type Around struct{ fed Fed[struct{}] }

// Witnessed is a fact that every call carries: one that does not is an error of the test.
func Witnessed() Around { return Around{fed: Feed[struct{}]()} }

// Nobody says that a world has nothing of it, and why it cannot.
func Nobody(why string) Around { return Around{fed: None[struct{}](why)} }

// fed reports every fact without a source.
func (f *Facts) fed() error {
	return errors.Join(
		f.Processes.fed.fed("processes"), f.Holders.fed.fed("holders"), f.Writers.fed.fed("writers"),
		f.Tasks.fed("tasks"), f.Shown.fed("shown"),
		f.Works.fed("works"), f.Secrets.fed("secrets"), f.Texts.fed("texts"), f.Strays.fed("strays"),
		f.Ends.fed("ends"), f.Obeyed.fed("obeyed"), f.Quiet.fed("quiet"), f.Provider.fed("provider"),
		f.Records.fed("records"), f.Rest.fed("rest"))
}

// observed reports calls that lack what was said to be witnessed, and facts that were said not to exist and do.
func (f *Facts) observed(record []proxy.Entry) error {
	var errs []error
	for _, e := range record {
		if e.Kind != proxy.CallBegins {
			continue
		}
		seen := e.Seen
		if seen == nil {
			seen = &proxy.Observation{}
		}
		switch csi.RPC(e.RPC) {
		case csi.NodeUnpublishVolume:
			errs = append(errs, f.Processes.at("processes", seen.Living, e))
		case csi.DeleteVolume:
			errs = append(errs, f.Holders.at("holders", seen.Holders, e))
		case csi.ControllerPublishVolume, csi.NodeStageVolume, csi.NodePublishVolume:
			if singleNode(e) {
				errs = append(errs, f.Writers.at("writers", named(seen.Writers), e))
			}
		}
		if e.Secrets > 0 && len(f.Secrets.list) == 0 && f.Texts.source {
			errs = append(errs, fmt.Errorf("fact %q is not fed: a call carries secrets, and none was named\n    at %s",
				"secrets", e))
		}
		if e.Secrets > 0 && f.Secrets.none != "" {
			errs = append(errs, fmt.Errorf("fact %q is said not to exist (%s), but a call carries secrets\n    at %s",
				"secrets", f.Secrets.none, e))
		}
	}
	return errors.Join(errs...)
}

// named are writers as people read them; nil stays nil.
func named(writers []proxy.Writer) (out []string) {
	if writers != nil {
		out = []string{}
	}
	for _, x := range writers {
		out = append(out, x.What+" on "+x.Node)
	}
	return out
}

func (a *Around) at(name string, seen []string, e proxy.Entry) error {
	switch {
	case a.fed.source && seen == nil:
		return fmt.Errorf("fact %q is not fed: no witness was asked\n    at %s", name, e)
	case a.fed.none != "" && len(seen) > 0:
		return fmt.Errorf("fact %q is said not to exist (%s), but a witness saw %q\n    at %s", name, a.fed.none, seen,
			e)
	}
	return nil
}
