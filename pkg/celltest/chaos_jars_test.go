// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
)

// onJars are brokers that are processes of this machine. In the full form each
// has a network namespace and a disk of its own, where the machine allows it.
func onJars(t *testing.T, f form) (on brokers, what string, own []fault) {
	t.Helper()
	const nodes = 3
	o := kafkatest.Options{Nodes: nodes, Heap: "256m", Properties: fastBrokers()}
	what = "processes from jars"
	if f.level < inFull {
		return kafkatest.StartT(t, o), what + ", on loopback", nil
	}
	if places, err := namespaces(t, nodes); err != nil {
		what += fmt.Sprintf(", on loopback (no namespaces: %v)", err)
	} else {
		what += ", each in a network namespace"
		o.Places, own = places, append(own, cutFromBrokers(nodes), controllerCut(), followersCut(), cutFromAll())
	}
	o.Dir = t.TempDir()
	if err := disks(t, o.Dir, nodes); err != nil {
		what += fmt.Sprintf(", no disks of their own (%v)", err)
	} else {
		what += ", each with a disk of 1 GiB"
		own = append(own, diskFull(o.Dir))
	}
	return kafkatest.StartT(t, o), what, own
}

// command runs one of the machine's.
func command(line string, args ...any) error {
	words := strings.Fields(fmt.Sprintf(line, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func commands(lines ...string) error {
	for _, l := range lines {
		if err := command("%s", l); err != nil {
			return err
		}
	}
	return nil
}

const (
	bridge = "berthchaos"
	subnet = "10.77.5."
)

func space(id int) string   { return fmt.Sprintf("berthchaos%d", id) }
func address(id int) string { return subnet + fmt.Sprint(10+id) }

// namespaces gives every broker a network namespace; a bridge joins them. It
// needs root, ip and nft.
func namespaces(t *testing.T, nodes int) ([]localkafka.Place, error) {
	t.Helper()
	t.Cleanup(func() {
		for id := 1; id <= nodes; id++ {
			_ = command("ip netns del %s", space(id)) // it may not have come so far
		}
		_ = command("ip link del %s", bridge)
	})
	if err := commands(
		"nft --version",
		"ip link add "+bridge+" type bridge",
		"ip addr add "+subnet+"254/24 dev "+bridge,
		"ip link set "+bridge+" up",
	); err != nil {
		return nil, err
	}
	var places []localkafka.Place
	for id := 1; id <= nodes; id++ {
		ns, end := space(id), fmt.Sprintf("berthlink%d", id)
		if err := commands(
			"ip netns add "+ns,
			"ip link add "+end+" type veth peer name eth0 netns "+ns,
			"ip link set "+end+" master "+bridge+" up",
			"ip -n "+ns+" addr add "+address(id)+"/24 dev eth0",
			"ip -n "+ns+" link set eth0 up", "ip -n "+ns+" link set lo up",
			"ip netns exec "+ns+" nft add table inet cut",
			"ip netns exec "+ns+" nft add chain inet cut in { type filter hook input priority 0; }",
			"ip netns exec "+ns+" nft add chain inet cut out { type filter hook output priority 0; }",
		); err != nil {
			return nil, err
		}
		places = append(places, localkafka.Place{Host: address(id), Within: []string{"ip", "netns", "exec", ns}})
	}
	return places, nil
}

// dropped are packets to and from a broker that vanish.
func dropped(c *chaos, id int, rules ...string) func() {
	for _, rule := range rules {
		c.must(command("ip netns exec %s nft add rule inet cut %s drop", space(id), rule))
	}
	return func() {
		c.must(command("ip netns exec %s nft flush chain inet cut in", space(id)))
		c.must(command("ip netns exec %s nft flush chain inet cut out", space(id)))
	}
}

// cutFromBrokers leaves a broker its clients and nobody else.
func cutFromBrokers(nodes int) fault {
	return fault{
		name:  "cut the leader of `instances` from the other brokers",
		lasts: longerThan,
		inject: func(c *chaos) (string, func()) {
			id, rules := c.the((*chaos).leaderOfInstances), []string{}
			for other := 1; other <= nodes; other++ {
				if other != id {
					rules = append(rules, "in ip saddr "+address(other), "out ip daddr "+address(other))
				}
			}
			return broker(id), dropped(c, id, rules...)
		},
	}
}

// controllerCut cuts the active controller and another broker, the leader of `instances` where that is not the
// controller itself, from each other: both have their clients and the third broker.
func controllerCut() fault {
	return eachOther("cut the active controller and another broker from each other", func(c *chaos) (int, int) {
		controller, other := c.the((*chaos).controller), c.the((*chaos).leaderOfInstances)
		if other == controller {
			other = controller%c.on.Nodes() + 1
		}
		return controller, other
	})
}

// followersCut cuts the two brokers that are not the active controller, to which both keep their way.
func followersCut() fault {
	return eachOther("cut two brokers that are not the active controller from each other", func(c *chaos) (int, int) {
		controller, nodes := c.the((*chaos).controller), c.on.Nodes()
		return controller%nodes + 1, (controller+1)%nodes + 1
	})
}

// eachOther cuts two of three brokers from each other for longer than any time-out of a client's request.
func eachOther(name string, two func(*chaos) (int, int)) fault {
	return fault{
		name:  name,
		lasts: 25 * time.Second,
		inject: func(c *chaos) (string, func()) {
			leader, group := c.the((*chaos).leaderOfInstances), c.the((*chaos).coordinatorOfTheGroup)
			id, other := two(c)
			what := fmt.Sprintf("%s; %d leads `instances`, %d the conductors' group", broker(id, other), leader, group)
			return what, dropped(c, id, "in ip saddr "+address(other), "out ip daddr "+address(other))
		},
	}
}

// cutFromAll leaves it nobody; nobody is told.
func cutFromAll() fault {
	return fault{
		name:  "cut the active controller from everybody",
		lasts: longerThan,
		inject: func(c *chaos) (string, func()) {
			id := c.the((*chaos).controller)
			return broker(id), dropped(c, id, "in iifname eth0", "out oifname eth0")
		},
	}
}

func disk(dir string, id int) string {
	return filepath.Join(dir, fmt.Sprintf("node%d", id), "data")
}

// disks mounts a small file system for the data of every broker.
func disks(t *testing.T, dir string, nodes int) error {
	t.Helper()
	for id := 1; id <= nodes; id++ {
		at, image := disk(dir, id), filepath.Join(dir, fmt.Sprintf("disk%d", id))
		if err := commands(
			"mkdir -p "+at,
			"truncate -s 1G "+image,
			"mkfs.ext4 -q -m 0 "+image,
			"mount -o loop "+image+" "+at,
			"rmdir "+at+"/lost+found",
		); err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := command("umount %s", at); err != nil {
				t.Error(err)
			}
		})
	}
	return nil
}

// diskFull takes all the room there is. The broker ends by itself.
func diskFull(dir string) fault {
	return fault{name: "fill the disk of the leader of `instances`", inject: func(c *chaos) (string, func()) {
		id := c.the((*chaos).leaderOfInstances)
		ballast := filepath.Join(disk(dir, id), "ballast")
		c.must(fill(ballast))
		return broker(id), func() {
			c.must(os.Remove(ballast))
			c.must(c.on.Kill(id))
			c.restart(id)
		}
	}}
}

// fill writes until there is no room.
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}
