package keeper_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/networks"
	"berth/internal/client/networks/keeper"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
	"berth/internal/testkit/ownnetwork"
)

// TestMain runs the tests in a network namespace of their own, or is the CNI plugin that they call.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		if err := beAPlugin(); err != nil {
			fmt.Printf(`{"cniVersion": "1.0.0", "code": 100, "msg": %q}`, err)
			os.Exit(1)
		}
		return
	}
	ownnetwork.Main(m)
}

// config is the network of the tests' plugin.
type config struct {
	CNIVersion string `json:"cniVersion"`
	State      string // a directory with a file for each attachment
	Refuse     string // why it attaches nothing
}

// beAPlugin keeps a file for each attachment, as plugins keep addresses, and makes a link in the namespace.
func beAPlugin() error {
	var c config
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	kept := filepath.Join(c.State, os.Getenv("CNI_CONTAINERID"))
	ns, name := os.Getenv("CNI_NETNS"), os.Getenv("CNI_IFNAME")
	if ns != "" {
		f, err := os.Open(ns)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	if os.Getenv("CNI_COMMAND") == "DEL" {
		if err := os.Remove(kept); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if l, err := netlink.LinkByName(name); err == nil && ns != "" {
			return netlink.LinkDel(l)
		}
		return nil
	}
	if err := os.WriteFile(kept, fmt.Append(nil, os.Getenv("CNI_ARGS"), " ", os.Getenv("SECRET")), 0o600); err != nil {
		return err
	}
	if c.Refuse != "" {
		return errors.New(c.Refuse)
	}
	at := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 88, 0, 5), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.LinkAdd(link), netlink.AddrAdd(link, at)); err != nil {
		return err
	}
	fmt.Printf(`{"cniVersion": "1.0.0", "interfaces": [{"name": %q, "sandbox": %q}],
		"ips": [{"address": "10.88.0.5/24", "interface": 0}], "dns": {"nameservers": ["192.0.2.9"]}}`, name, ns)
	return nil
}

// lab lays out a network of CNI plugins, and returns where its plugin keeps its attachments.
func (r *rig) lab(refuse string) (state string) {
	r.t.Helper()
	state = filepath.Join(r.dir, "plugin")
	for _, d := range []string{state, r.plugins.Dir, r.plugins.Path[0]} {
		must(r.t, os.MkdirAll(d, 0o755))
	}
	self, err := os.Executable()
	must(r.t, err)
	at := filepath.Join(r.plugins.Path[0], "tester")
	if err := os.Symlink(self, at); err != nil && !errors.Is(err, os.ErrExist) {
		r.t.Fatal(err)
	}
	must(r.t, os.WriteFile(filepath.Join(r.plugins.Dir, "lab.conflist"), fmt.Appendf(nil,
		`{"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "tester", "State": %q, "Refuse": %q}]}`,
		state, refuse), 0o600))
	return state
}

// attachments lists what the plugin keeps.
func attachments(t *testing.T, state string) (out []string) {
	t.Helper()
	all, err := os.ReadDir(state)
	must(t, err)
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(state, e.Name()))
		must(t, err)
		out = append(out, string(b))
	}
	return out
}

func ofPlugins() networks.Want {
	w := want(network.ModeCNI("lab"), 8080)
	w.Args = map[string]string{"B": "2", "A": "1"}
	return w
}

// TestPluginsAttachAnAlloc: with their arguments and nothing of the agent's environment; the alloc has what they
// answer, and once it is attached nobody is called again.
func TestPluginsAttachAnAlloc(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	r := newRig(t)
	state := r.lab("")
	w := ofPlugins()
	made, err := r.k.Make(t.Context(), w)
	must(t, err)
	s := made.Status
	if s.Address != "10.88.0.5" || s.Interface != network.Interface || s.DNS == nil || s.DNS.Servers[0] != "192.0.2.9" {
		t.Errorf("the status is %+v", s)
	}
	if got := attachments(t, state); len(got) != 1 || got[0] != "IgnoreUnknown=true;A=1;B=2 " {
		t.Errorf("the plugin was called with %q", got)
	}
	resolver, err := os.ReadFile(filepath.Join(r.dir, "networks", string(w.Alloc), "resolv.conf"))
	must(t, err)
	if !strings.Contains(string(resolver), "192.0.2.9") {
		t.Errorf("names are resolved by %s", resolver)
	}
	r.lab("it was called again")
	r.restart()
	again, err := r.k.Make(t.Context(), w)
	must(t, err)
	if again.Status.Address != s.Address {
		t.Errorf("after a restart it has %s", again.Status.Address)
	}
	must(t, r.k.Release(t.Context(), w.Alloc))
	if got := attachments(t, state); len(got) > 0 {
		t.Errorf("after its end the plugin keeps %q", got)
	}
}

// TestAPluginThatFailsHoldsUpItsAllocAlone: what is in the way is said, and what it has begun is taken back before the
// next try.
func TestAPluginThatFailsHoldsUpItsAllocAlone(t *testing.T) {
	r := newRig(t)
	state := r.lab("no address is left")
	w := ofPlugins()
	for range 2 {
		_, err := r.k.Make(t.Context(), w)
		if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "no address is left") {
			t.Fatalf("it says %v", err)
		}
	}
	other := want(network.ModeNone, 0)
	_, err := r.k.Make(t.Context(), other)
	must(t, err)
	must(t, r.k.Release(t.Context(), other.Alloc))
	r.lab("")
	_, err = r.k.Make(t.Context(), w)
	must(t, err)
	must(t, r.k.Release(t.Context(), w.Alloc))
	if got := attachments(t, state); len(got) > 0 {
		t.Errorf("the plugin keeps %q", got)
	}
	w = ofPlugins()
	w.Mode = network.ModeCNI("nowhere")
	if _, err = r.k.Make(t.Context(), w); !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "has lab") {
		t.Errorf("a network that is not there: %v", err)
	}
	must(t, r.k.Release(t.Context(), w.Alloc))
}

// TestPluginsDetachWhateverTheyMayHaveAttached: after a crash at any step of making or releasing, whether the alloc
// goes on, has gone, or is forgotten with the node's store; though the configuration is another one by then.
func TestPluginsDetachWhateverTheyMayHaveAttached(t *testing.T) {
	for _, then := range []string{"goes on", "has gone", "is forgotten", "releasing"} {
		for n, done := 0, false; !done && !t.Failed(); n++ {
			t.Run(fmt.Sprintf("%s/%d", then, n), func(t *testing.T) {
				r := newRig(t)
				state := r.lab("")
				w := ofPlugins()
				if then == "releasing" {
					_, err := r.k.Make(t.Context(), w)
					must(t, err)
				}
				over := crashAt(r.k, n)
				var err error
				if then == "releasing" {
					err = r.k.Release(t.Context(), w.Alloc)
				} else {
					_, err = r.k.Make(t.Context(), w)
				}
				if done = over(); done != (err == nil) || err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				r.stop()
				if then == "is forgotten" {
					must(t, os.RemoveAll(filepath.Join(r.dir, "client")))
				}
				r.start()
				if then == "goes on" {
					r.owners.known = []ids.Alloc{w.Alloc}
					made, err := r.k.Make(t.Context(), w)
					must(t, err)
					addrs, err := bridge.Addresses(made.Network.Namespace)
					must(t, err)
					if len(addrs) != 1 || addrs[0].String() != "10.88.0.5" || len(attachments(t, state)) != 1 {
						t.Errorf("it has %v, the plugin keeps %q", addrs, attachments(t, state))
					}
					must(t, r.k.Release(t.Context(), w.Alloc))
				} else {
					must(t, os.Remove(filepath.Join(r.plugins.Dir, "lab.conflist")))
					if keeper.Sweep(r.k, t.Context()) {
						t.Error("it is not decided that nobody wants it")
					}
				}
				if got := attachments(t, state); len(got) > 0 {
					t.Errorf("the plugin keeps %q", got)
				}
			})
		}
	}
}

// TestAPluginThatGotHalfwayIsCalledToDetach: given a plugin that has attached an alloc and did not come to its answer,
// of which its library then knows nothing, when the agent starts again without that alloc and with another
// configuration, then the plugin detaches it: how was written down before it was called.
func TestAPluginThatGotHalfwayIsCalledToDetach(t *testing.T) {
	r := newRig(t)
	state := r.lab("it goes no further")
	w := ofPlugins()
	if _, err := r.k.Make(t.Context(), w); !fault.Has(err, fault.Unavailable) || len(attachments(t, state)) != 1 {
		t.Fatalf("%v; the plugin keeps %q", err, attachments(t, state))
	}
	r.restart()
	must(t, os.Remove(filepath.Join(r.plugins.Dir, "lab.conflist")))
	if keeper.Sweep(r.k, t.Context()) {
		t.Error("it is not decided that nobody wants it")
	}
	if got := attachments(t, state); len(got) > 0 {
		t.Errorf("the plugin keeps %q", got)
	}
}

// TestWhatSaysHowItIsAttachedMayBeDamaged: the plugins detach an alloc as their library, or the configuration of its
// network, says; where neither does, that is said with the way out, and others are released all the same.
func TestWhatSaysHowItIsAttachedMayBeDamaged(t *testing.T) {
	torn := func(path string) error { return os.Truncate(path, 9) }
	for name, c := range map[string]struct {
		damage             func(path string) error
		library, forgotten bool // is gone; the node's store is
		left               int
	}{
		"torn":                              {damage: torn},
		"torn, and the library's":           {damage: torn, library: true},
		"gone":                              {damage: os.Remove},
		"gone, and the library's":           {damage: os.Remove, library: true},
		"torn, and the store":               {damage: torn, forgotten: true},
		"gone, and the store":               {damage: os.Remove, forgotten: true},
		"torn, the library's and the store": {damage: torn, library: true, forgotten: true, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			state := r.lab("")
			w, other := ofPlugins(), ofPlugins()
			w.Alloc, other.Alloc = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
			for _, one := range []networks.Want{w, other} {
				_, err := r.k.Make(t.Context(), one)
				must(t, err)
			}
			r.stop()
			dir := filepath.Join(r.dir, "networks", string(w.Alloc))
			must(t, c.damage(filepath.Join(dir, "cni.json")))
			if c.library {
				must(t, os.RemoveAll(filepath.Join(dir, "cni")))
			}
			if c.forgotten {
				must(t, os.RemoveAll(filepath.Join(r.dir, "client")))
			}
			r.start()
			keeper.Sweep(r.k, t.Context())
			if got := attachments(t, state); len(got) != c.left {
				t.Errorf("the plugin keeps %q, want %d", got, c.left)
			}
			if c.left > 0 {
				err := keeper.Unrecorded(r.k)
				for _, want := range []string{"cni.json is damaged", string(w.Alloc), "bring the file back", "DEL"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("it says %v, without %q", err, want)
					}
				}
				must(t, bridge.RemoveNamespace(filepath.Join(dir, "netns")))
				must(t, os.RemoveAll(dir)) // as it says
				if err := keeper.Unrecorded(r.k); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestAnAllocWhoseAttachmentIsNotKnownIsAttachedAnew: what there is of it is detached first.
func TestAnAllocWhoseAttachmentIsNotKnownIsAttachedAnew(t *testing.T) {
	r := newRig(t)
	state := r.lab("")
	w := ofPlugins()
	for _, damage := range []func(string) error{os.Remove, func(p string) error { return os.Truncate(p, 9) }} {
		_, err := r.k.Make(t.Context(), w)
		must(t, err)
		must(t, damage(filepath.Join(r.dir, "networks", string(w.Alloc), "cni.json")))
		r.restart()
		made, err := r.k.Make(t.Context(), w)
		must(t, err)
		if addrs, err := bridge.Addresses(made.Network.Namespace); err != nil || len(addrs) != 1 {
			t.Errorf("it has %v, %v", addrs, err)
		}
		must(t, r.k.Release(t.Context(), w.Alloc))
		if got := attachments(t, state); len(got) > 0 {
			t.Errorf("the plugin keeps %q", got)
		}
	}
}

// TestAfterARebootPluginsAttachAnew: what they keep of before is taken back first.
func TestAfterARebootPluginsAttachAnew(t *testing.T) {
	r := newRig(t)
	state := r.lab("")
	w := ofPlugins()
	made, err := r.k.Make(t.Context(), w)
	must(t, err)
	must(t, bridge.RemoveNamespace(made.Network.Namespace)) // the kernel forgets all of it
	r.boot = "boot 2"
	r.restart()
	made, err = r.k.Make(t.Context(), w)
	must(t, err)
	if addrs, err := bridge.Addresses(made.Network.Namespace); err != nil || len(addrs) != 1 {
		t.Errorf("it has %v, %v", addrs, err)
	}
	must(t, bridge.RemoveNamespace(made.Network.Namespace)) // and now it ends without one
	must(t, r.k.Release(t.Context(), w.Alloc))
	if got := attachments(t, state); len(got) > 0 {
		t.Errorf("the plugin keeps %q", got)
	}
}

// TestNetworksOfPluginsAreFound: by their names, whatever kind of file has them; one that is none hides no other.
func TestNetworksOfPluginsAreFound(t *testing.T) {
	r := newRig(t)
	r.lab("")
	must(t, os.WriteFile(filepath.Join(r.plugins.Dir, "one.conf"),
		[]byte(`{"cniVersion": "1.0.0", "name": "one", "type": "tester"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(r.plugins.Dir, "two.conflist"),
		[]byte(`{"cniVersion": "1.0.0", "name": "two"}`), 0o600))
	must(t, os.Mkdir(filepath.Join(r.plugins.Dir, "two"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.plugins.Dir, "two", "a.conf"), []byte(`{"type": "apart"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(r.plugins.Dir, "bad.conf"), []byte(`{`), 0o600))
	must(t, os.WriteFile(filepath.Join(r.plugins.Path[0], "named"),
		[]byte("#!/bin/sh\necho 'CNI named plugin v1.2.3-rc.1' >&2\nexit 1\n"), 0o700)) //nolint:gosec // a program
	must(t, os.Remove(filepath.Join(r.plugins.Path[0], "tester")))
	all, err := r.plugins.Networks()
	if len(all) != 3 || all[0].Name != "lab" || all[1].Name != "one" || err == nil ||
		!strings.Contains(err.Error(), "bad.conf") || !strings.Contains(string(all[2].List), "apart") ||
		!strings.Contains(string(all[1].List), `"plugins":[{`) {
		t.Errorf("found are %+v, %v", all, err)
	}
	if got := r.plugins.Versions(t.Context()); len(got) != 1 || got["named"] != "1.2.3-rc.1" {
		t.Errorf("versions: %v", got)
	}
	if all, err = (cni.Plugins{Dir: filepath.Join(r.dir, "nowhere")}).Networks(); len(all) > 0 || err != nil {
		t.Errorf("without a directory: %v, %v", all, err)
	}
}
