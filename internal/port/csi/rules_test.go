package csi

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

var update = flag.Bool("update", false, "rewrite golden files")

func allRPCs() []RPC { return slices.Sorted(maps.Keys(rpcTable)) }

func allCodes() []Code {
	var out []Code
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		out = append(out, c)
	}
	return out
}

// TestErrorTableIsTheOneOfTheDesign compares every cell of calls × codes with the reviewed table.
func TestErrorTableIsTheOneOfTheDesign(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What every code of every call means: finality, retry, hint. Rewritten by -update.\n")
	for _, rpc := range allRPCs() {
		for _, code := range allCodes() {
			f, r, hint := Explain(rpc, code)
			fmt.Fprintf(&b, "%-30s %-18s %-7s %-15s %s\n", rpc, code, f, r, hint)
		}
	}
	const golden = "testdata/errors.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the error table changed; look at it and run with -update:\n%s", b.String())
	}
}

func TestErrorRulesHoldForEveryCallAndCode(t *testing.T) {
	final := map[Code]bool{codes.OK: true, codes.InvalidArgument: true, codes.PermissionDenied: true,
		codes.Unimplemented: true, codes.Unauthenticated: true}
	always := map[Code]bool{codes.Canceled: true, codes.Unknown: true, codes.DeadlineExceeded: true,
		codes.Internal: true, codes.Unavailable: true, codes.DataLoss: true, codes.Aborted: true}
	undo := map[RPC]bool{
		ControllerUnpublishVolume: true,
		NodeUnstageVolume:         true,
		NodeUnpublishVolume:       true,
		DeleteVolume:              true,
	}
	for _, rpc := range allRPCs() {
		for _, code := range append(allCodes(), 17, 99) {
			f, r, hint := Explain(rpc, code)
			at := fmt.Sprintf("%s %s", rpc, code)
			if code != codes.OK && hint == "" {
				t.Errorf("%s: no hint", at)
			}
			if strings.HasSuffix(hint, ".") || strings.ToLower(hint[:min(1, len(hint))]) != hint[:min(1, len(hint))] {
				t.Errorf("%s: the hint %q is not lower case without a full stop", at, hint)
			}
			if !rpc.Mutating() && f != Final {
				t.Errorf("%s: a call that changes nothing leaves nothing uncertain", at)
			}
			if rpc.Mutating() && (always[code] || code > codes.Unauthenticated) && f != Unknown {
				t.Errorf("%s: its end must not be taken as known", at)
			}
			if final[code] && f != Final {
				t.Errorf("%s: is a plain no", at)
			}
			if (code == codes.Unimplemented ||
				code == codes.InvalidArgument && !strings.HasSuffix(string(rpc), "VolumeGroupSnapshot") ||
				code == codes.OutOfRange) && r != volume.RetryNever {
				t.Errorf("%s: must never be repeated, not %s", at, r)
			}
			if undo[rpc] && code == codes.NotFound && (f != Unknown || r != volume.RetryVerify) {
				t.Errorf("%s: not found is no success and no failure: look", at)
			}
			if k := kindOfCode(code); k == fault.NotReady {
				t.Errorf("%s: kind %s means waiting between our own processes only", at, k)
			}
		}
	}
}

// TestEveryRPCOfTheSpecificationIsKnown holds the list of calls against the generated service descriptions.
func TestEveryRPCOfTheSpecificationIsKnown(t *testing.T) {
	alphaOnly := map[string]bool{"ControllerListVolumeHealth": true, "ControllerGetVolumeHealth": true,
		"NodeGetVolumeHealth": true, "NodeGetStorageHealth": true}
	seen := map[RPC]bool{}
	for _, d := range []grpc.ServiceDesc{pb.Identity_ServiceDesc, pb.Controller_ServiceDesc,
		pb.GroupController_ServiceDesc, pb.Node_ServiceDesc} {
		for _, m := range d.Methods {
			rpc := RPC(m.MethodName)
			if alphaOnly[m.MethodName] {
				continue
			}
			seen[rpc] = true
			if rpc.FullMethod() != "/"+d.ServiceName+"/"+m.MethodName {
				t.Errorf("%s is called as %s", m.MethodName, rpc.FullMethod())
			}
			if rpc.DefaultTimeout() <= 0 {
				t.Errorf("%s has no time-out", rpc)
			}
		}
	}
	for _, rpc := range allRPCs() {
		if !seen[rpc] {
			t.Errorf("%s is no call of the specification", rpc)
		}
	}
}

// TestCapabilityNumbersAreTheSpecifications holds our names against the generated enumerations.
func TestCapabilityNumbersAreTheSpecifications(t *testing.T) {
	check := func(kind string, ours map[int32]string, theirs map[int32]string, gone ...int32) {
		for n, name := range theirs {
			if n != 0 && ours[n] != name {
				t.Errorf("%s capability %d is %s, here %q", kind, n, name, ours[n])
			}
		}
		for n := range ours {
			if _, ok := theirs[n]; !ok && !slices.Contains(gone, n) {
				t.Errorf("%s capability %d is not in the specification", kind, n)
			}
		}
	}
	check("plugin", pluginCapNames, pb.PluginCapability_Service_Type_name)
	check("expansion", expansionCapNames, pb.PluginCapability_VolumeExpansion_Type_name)
	check("controller", controllerCapNames, pb.ControllerServiceCapability_RPC_Type_name, 11)
	check("node", nodeCapNames, pb.NodeServiceCapability_RPC_Type_name, 4)
	for m, sent := range accessModes {
		want := strings.ReplaceAll(strings.ToUpper(string(m)), "-", "_")
		if sent.String() != want || !m.Valid() {
			t.Errorf("%s is sent as %s", m, sent)
		}
	}
	if len(accessModes) != 5 {
		t.Errorf("%d access modes can be sent", len(accessModes))
	}
}

func TestAUseOfAVolumeIsTranslatedOnce(t *testing.T) {
	options := &volume.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
	use := func(m volume.AttachmentMode) volume.Capability {
		return volume.Capability{AccessMode: volume.SingleNodeWriter, AttachmentMode: m}
	}
	for _, c := range []struct {
		name string
		use  volume.Capability
		with *volume.MountOptions
		sent string
	}{
		{"a file system", use(volume.FileSystem), nil, "mount:{} access_mode:{mode:SINGLE_NODE_WRITER}"},
		{"a file system with options", use(volume.FileSystem), options,
			`mount:{fs_type:"ext4" mount_flags:"noatime"} access_mode:{mode:SINGLE_NODE_WRITER}`},
		{"a block device", use(volume.BlockDevice), nil, "block:{} access_mode:{mode:SINGLE_NODE_WRITER}"},
		{"a block device of a volume with options", use(volume.BlockDevice), options,
			"block:{} access_mode:{mode:SINGLE_NODE_WRITER}"},
		{"no use", volume.Capability{}, nil, ""},
		{"no use of a volume with options", volume.Capability{}, options, ""},
	} {
		got := ""
		if m := optionalCapabilityPB(CapabilityOf(c.use, c.with)); m != nil {
			got = strings.Join(strings.Fields(m.String()), " ")
		}
		if got != c.sent {
			t.Errorf("%s is sent as %s, want %s", c.name, got, c.sent)
		}
	}
}

func TestErrorsThatAreNoCSIErrorsAreUncertain(t *testing.T) {
	err := fault.New(fault.Internal, "a", "b", "c")
	if FinalityOf(err) != Unknown || RetryOf(err) != volume.RetryBackoff || CodeOf(err) != codes.Unknown {
		t.Errorf("%s %s %s", FinalityOf(err), RetryOf(err), CodeOf(err))
	}
	if FinalityOf(nil) != Final || CodeOf(nil) != codes.OK {
		t.Error("success is known")
	}
	k := armed().begin(NodeStageVolume, "volume", "db", nil)
	wrapped := fault.Note(k.failure(status.New(codes.NotFound, "no such volume"), false), "bring up", "alloc 1")
	if e, is := AsError(wrapped); !is || e.Code != codes.NotFound || !fault.Has(wrapped, fault.NotFound) ||
		RetryOf(wrapped) != volume.RetryVerify {
		t.Errorf("the code is lost on the way: %v", wrapped)
	}
}
