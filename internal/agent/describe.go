package agent

import (
	"maps"
	"net"
	"strconv"
)

// describe is the configuration as GET /v1/agent/self shows it, by the names that clients know. It has no secret: of a
// token not even its file.
func (c *Config) describe(version, level string) map[string]any {
	addr := net.JoinHostPort(c.BindAddr, strconv.Itoa(c.Ports.HTTP))
	return map[string]any{
		"ACL":            map[string]any{"Enabled": c.lists()},
		"API":            c.describeAPI(),
		"Addresses":      map[string]any{"HTTP": c.BindAddr},
		"AdvertiseAddrs": map[string]any{"HTTP": addr},
		"BindAddr":       c.BindAddr,
		"Client":         c.Client.describe(),
		"DataDir":        c.DataDir,
		"Datacenter":     c.Datacenter,
		"DevMode":        c.dev,
		"EnableDebug":    false,
		"EnableSyslog":   false,
		"LeaveOnInt":     c.LeaveOnInterrupt,
		"LeaveOnTerm":    c.LeaveOnTerminate,
		"LogJson":        c.LogJSON,
		"LogLevel":       level,
		"NodeName":       c.Name,
		"Ports":          map[string]any{"HTTP": c.Ports.HTTP},
		"Region":         c.Region,
		"Server":         map[string]any{"Enabled": c.Server.Enabled, "BootstrapExpect": c.Server.BootstrapExpect},
		"TLSConfig":      map[string]any{"EnableHTTP": c.certs != nil, "EnableRPC": false},
		"UI":             map[string]any{"Enabled": false, "ShowCLIHints": false},
		"Version":        map[string]any{"Version": version},
	}
}

func (c *ClientBlock) describe() map[string]any {
	volumes := []map[string]any{}
	for _, v := range c.HostVolumes {
		volumes = append(volumes, map[string]any{
			"Name":     v.Name,
			"Path":     v.Path,
			"ReadOnly": v.ReadOnly,
		})
	}
	meta := map[string]string{}
	maps.Copy(meta, c.Meta)
	out := map[string]any{
		"BridgeNetworkName":        c.BridgeName,
		"BridgeNetworkSubnet":      c.BridgeSubnet,
		"BridgeNetworkSubnetIPv6":  c.BridgeSubnet6,
		"BridgeNetworkHairpinMode": orDev(c.BridgeHairpin, false),
		"CNIPath":                  c.CNIPath,
		"CNIConfigDir":             c.CNIDir,
		"NetworkInterface":         c.NetworkInterface,
		"CpuCompute":               c.CPUTotal,
		"Enabled":                  c.Enabled,
		"HostVolumes":              volumes,
		"MaxDynamicPort":           c.MaxPort,
		"MemoryMB":                 c.MemoryTotal,
		"Meta":                     meta,
		"MinDynamicPort":           c.MinPort,
		"NodeClass":                c.NodeClass,
		"NodePool":                 c.NodePool,
	}
	if r := c.Reserved; r != nil {
		out["Reserved"] = map[string]any{
			"CPU":           r.CPU,
			"DiskMB":        r.DiskMB,
			"MemoryMB":      r.MemoryMB,
			"ReservedPorts": r.Ports,
		}
	}
	return out
}

// knownServers are where the node finds its servers.
func (c *Config) knownServers() []string {
	if c.Server.Enabled {
		return []string{net.JoinHostPort(c.BindAddr, strconv.Itoa(c.Ports.HTTP))}
	}
	return c.Client.Servers
}
