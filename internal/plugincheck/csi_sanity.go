package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

func (s *storage) starts(ctx context.Context) (string, error) {
	if _, err := s.connected(ctx); err != nil {
		return "", err
	}
	first := s.inst
	if err := s.kill(); err != nil {
		return "", err
	}
	c, err := s.connected(ctx)
	if err != nil {
		return "", fmt.Errorf("after it was killed: %w", err)
	}
	if s.inst.Name != first.Name || s.inst.NodeID != first.NodeID || s.inst.Roles != first.Roles {
		return "", broken("it was %s %q on node %q, and is %s %q on node %q after it was started again", first.Roles,
			first.Name, first.NodeID, s.inst.Roles, s.inst.Name, s.inst.NodeID)
	}
	if _, err := c.Probe(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, with %d capabilities of a controller and %d of a node", s.inst.Roles,
		len(s.inst.Controller), len(s.inst.Node)), nil
}

// empty are the calls that need something of a request, by what they are called for.
func (s *storage) empty() (out []csi.RPC) {
	add := func(claims bool, rpcs ...csi.RPC) {
		if claims {
			out = append(out, rpcs...)
		}
	}
	controller := s.inst.Roles.Has(csi.RoleController)
	add(controller && s.inst.Controller.Has(csi.CapCreateDelete), csi.CreateVolume, csi.DeleteVolume)
	add(controller && s.inst.NeedsAttach(), csi.ControllerPublishVolume, csi.ControllerUnpublishVolume)
	add(controller, csi.ValidateVolumeCapabilities)
	add(controller && s.inst.Controller.Has(csi.CapSnapshot), csi.CreateSnapshot, csi.DeleteSnapshot)
	add(controller && s.inst.Controller.Has(csi.CapExpand), csi.ControllerExpandVolume)
	node := s.inst.Roles.Has(csi.RoleNode)
	add(node && s.inst.Stages(), csi.NodeStageVolume, csi.NodeUnstageVolume)
	add(node, csi.NodePublishVolume, csi.NodeUnpublishVolume)
	return out
}

// refuses makes calls without anything in them: the agent sends none, and what a plugin makes of one tells whether it
// looks at what it is asked.
func (s *storage) refuses(ctx context.Context) (string, error) {
	conn, err := grpc.NewClient("unix:"+s.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	if err != nil {
		return "", err
	}
	var wrong []string
	calls := s.empty()
	for _, rpc := range calls {
		err := conn.Invoke(ctx, rpc.FullMethod(), &emptypb.Empty{}, &emptypb.Empty{})
		if code := status.Code(err); code != codes.InvalidArgument {
			wrong = append(wrong, fmt.Sprintf("%s answers %s", rpc, code))
		}
	}
	if err := conn.Close(); err != nil {
		return "", err
	}
	if len(wrong) > 0 {
		return "", broken("of an empty request InvalidArgument is due: %s", strings.Join(wrong, ", "))
	}
	return fmt.Sprintf("%d calls", len(calls)), nil
}

// unknown asks for what there is not: undoing succeeds, and the rest is not found.
func (s *storage) unknown(ctx context.Context) (string, error) {
	c, err := s.connected(ctx)
	if err != nil {
		return "", err
	}
	const none = "there-is-no-such-volume"
	var wrong []error
	want := func(what string, err error, code codes.Code) {
		if csi.CodeOf(err) != code {
			wrong = append(wrong, fmt.Errorf("%s: %s is due, and it answers: %w", what, code, orOK(err)))
		}
	}
	if s.inst.Roles.Has(csi.RoleController) {
		if s.inst.Controller.Has(csi.CapCreateDelete) {
			want("the deletion of an unknown volume", c.DeleteVolume(ctx, csi.DeleteVolumeRequest{
				VolumeID: none,
				Secrets:  s.secrets(),
			}), codes.OK)
		}
		_, err := c.ValidateVolume(ctx, csi.ValidateVolumeRequest{
			VolumeID:     none,
			Capabilities: []csi.VolumeCapability{s.use(volume.SingleNodeWriter)},
			Secrets:      s.secrets(),
		})
		want("the validation of an unknown volume", err, codes.NotFound)
		if s.inst.Controller.Has(csi.CapSnapshot) {
			want("the deletion of an unknown snapshot", c.DeleteSnapshot(ctx, csi.DeleteSnapshotRequest{
				SnapshotID: "there-is-no-such-snapshot",
				Secrets:    s.secrets(),
			}), codes.OK)
		}
	}
	return "", errors.Join(wrong...)
}

var errOK = errors.New("OK")

func orOK(err error) error {
	if err == nil {
		return errOK
	}
	return err
}

func (s *storage) wanted(name string, bytes int64) csi.CreateVolumeRequest {
	r := csi.CreateVolumeRequest{
		Name:         name,
		Capacity:     csi.CapacityRange{Required: bytes},
		Capabilities: []csi.VolumeCapability{s.use(volume.SingleNodeWriter)},
		Parameters:   s.asked.Volume.Parameters,
		Secrets:      s.secrets(),
	}
	if s.inst.TopologyAware() && len(s.inst.Topology) > 0 {
		r.Topology = csi.TopologyRequirement{
			Requisite: []csi.Topology{s.inst.Topology},
			Preferred: []csi.Topology{s.inst.Topology},
		}
	}
	return r
}

// creation makes a volume, and keeps the answer.
func (s *storage) creation(r csi.CreateVolumeRequest, into *csi.Volume) call {
	return func(ctx context.Context, c *csi.Client) (err error) {
		*into, err = c.CreateVolume(ctx, r)
		return err
	}
}

func (s *storage) deletion(id string) call {
	return func(ctx context.Context, c *csi.Client) error {
		return c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: id, Secrets: s.secrets()})
	}
}

func (s *storage) name(of string) string { return "plugin-test-" + s.run + "-" + of }

func (s *storage) needCreate() error {
	return need(s.inst.Roles.Has(csi.RoleController) && s.inst.Controller.Has(csi.CapCreateDelete), "to create volumes")
}

func (s *storage) creates(ctx context.Context) (string, error) {
	if err := s.needCreate(); err != nil {
		return "", err
	}
	var vol csi.Volume
	if err := s.until(ctx, "create", s.creation(s.wanted(s.name("a"), s.asked.Volume.Bytes), &vol)); err != nil {
		return "", err
	}
	s.vol = vol
	if vol.Capacity != 0 && vol.Capacity < s.asked.Volume.Bytes {
		return "", broken("%d bytes were asked for, and it has %d", s.asked.Volume.Bytes, vol.Capacity)
	}
	return fmt.Sprintf("volume %q of %d bytes", vol.ID, vol.Capacity), nil
}

func (s *storage) createsOnce(ctx context.Context) (string, error) {
	if err := errors.Join(s.needCreate(), s.needVolume()); err != nil {
		return "", err
	}
	again := s.wanted(s.name("a"), s.asked.Volume.Bytes)
	same := func() error {
		var vol csi.Volume
		if err := s.until(ctx, "create again", s.creation(again, &vol)); err != nil {
			return err
		}
		if vol.ID != s.vol.ID {
			s.more = append(s.more, vol.ID)
			return broken("the same name gave volume %q, and then %q", s.vol.ID, vol.ID)
		}
		if len(vol.Context) != len(s.vol.Context) {
			return broken("the same name gave context %v, and then %v", s.vol.Context, vol.Context)
		}
		return nil
	}
	if err := same(); err != nil {
		return "", err
	}
	if err := s.kill(); err != nil {
		return "", err
	}
	if err := same(); err != nil {
		return "", fmt.Errorf("after it was killed: %w", err)
	}
	c, err := s.connected(ctx)
	if err != nil {
		return "", err
	}
	larger := s.wanted(s.name("a"), max(2*s.asked.Volume.Bytes, 2*s.vol.Capacity))
	vol, err := c.CreateVolume(ctx, larger)
	if err == nil && vol.ID != s.vol.ID {
		s.more = append(s.more, vol.ID)
	}
	if csi.CodeOf(err) != codes.AlreadyExists && csi.CodeOf(err) != codes.OutOfRange {
		return "", broken("the same name with twice the size: AlreadyExists is due, and it answers: %v", orOK(err))
	}
	return "", nil
}

func (s *storage) lists(ctx context.Context) (string, error) {
	if err := s.needVolume(); err != nil {
		return "", err
	}
	c, err := s.connected(ctx)
	if err != nil {
		return "", err
	}
	v, err := c.ValidateVolume(ctx, csi.ValidateVolumeRequest{
		VolumeID:      s.vol.ID,
		VolumeContext: s.vol.Context,
		Capabilities:  []csi.VolumeCapability{s.use(volume.SingleNodeWriter)},
		Parameters:    s.asked.Volume.Parameters,
		Secrets:       s.secrets(),
	})
	if err != nil {
		return "", err
	}
	if !v.Confirmed {
		return "", broken("the use that it was created for is not confirmed: %s %v", v.Message, v.Mismatches)
	}
	if !s.inst.Controller.Has(csi.CapListVolumes) {
		return "its use is confirmed; it lists no volumes", nil
	}
	n, there, err := s.listed(ctx, c, s.vol.ID)
	if err == nil && !there {
		err = broken("it lists %d volumes, and not the one that it made", n)
	}
	return fmt.Sprintf("%d volumes", n), err
}

// maxPages bounds a list: a plugin may give the same page for ever.
const maxPages = 100_000

// listed looks for a volume in the plugin's list, page by page.
func (s *storage) listed(ctx context.Context, c *csi.Client, id string) (n int, there bool, err error) {
	token := ""
	for range maxPages {
		page, err := c.ListVolumes(ctx, csi.ListVolumesRequest{MaxEntries: 2, Token: token})
		if err != nil {
			return n, there, err
		}
		n += len(page.Entries)
		there = there || slices.ContainsFunc(page.Entries, func(e csi.VolumeEntry) bool { return e.Volume.ID == id })
		if page.NextToken == "" {
			return n, there, nil
		}
		token = page.NextToken
	}
	return n, there, broken("its list does not end")
}
