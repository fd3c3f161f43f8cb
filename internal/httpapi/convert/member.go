package convert

import (
	"berth/api"
	"berth/internal/wire"
)

// Member makes the public form of a server. The protocols are those of the gossip that clients of this API know.
func Member(m wire.Member) *api.AgentMember {
	return &api.AgentMember{
		Name:        m.Name,
		Addr:        m.Addr,
		Port:        m.Port,
		Tags:        m.Tags,
		Status:      m.Status,
		ProtocolMin: 1,
		ProtocolMax: 5,
		ProtocolCur: 2,
		DelegateMin: 2,
		DelegateMax: 5,
		DelegateCur: 4,
	}
}
