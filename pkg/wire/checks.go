// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"regexp"

	"github.com/berth-project/berth/pkg/compute"
)

// What follows is for records that only Berth itself should write. Any client that
// may write to Kafka may write them too, so nothing absurd gets past the decoders:
// neither a negative amount that would turn a quota round, nor a name that no
// topic can have, nor an id too long for the report that would have to repeat it.

// amounts refuses amounts outside least..compute.MaxAmount, and too many of them.
func (r *reader) amounts(field string, a compute.Resources, least int64) {
	if len(a) > compute.MaxClasses {
		r.refuse(compute.Invalid(field, fmt.Sprintf("%d classes", len(a)),
			fmt.Sprintf("give at most %d classes", compute.MaxClasses)))
		return
	}
	for _, c := range a.Classes() {
		if n := a[c]; n < least || n > compute.MaxAmount {
			r.refuse(compute.Invalid(field, fmt.Sprintf("%s=%d", cut(string(c), maxShown), n),
				fmt.Sprintf("give whole numbers from %d to %d", least, int64(compute.MaxAmount))))
		}
	}
}

// traits refuses names that are none, and too many.
func (r *reader) traits(lists ...[]compute.Trait) {
	for _, list := range lists {
		if len(list) > compute.MaxTraits {
			r.refuse(compute.Invalid("traits", fmt.Sprint(len(list)),
				fmt.Sprintf("give at most %d", compute.MaxTraits)))
			return
		}
		for _, t := range list {
			r.check(t.Check())
		}
	}
}

// perhaps checks what may be empty.
func perhaps[W interface {
	~string
	Check() error
}](r *reader, w W) {
	if w != "" {
		r.check(w.Check())
	}
}

// whose refuses a record about nobody's instance.
func (r *reader) whose(p compute.Project, id compute.InstanceID) {
	r.check(p.Check())
	r.check(id.Check())
}

func (r *reader) instance(i compute.Instance) {
	r.whose(i.Project, i.ID)
	perhaps(r, i.Host)
	perhaps(r, i.Boot.Host)
	r.atMost("claim", len(i.Claim), MaxID)
	r.atMost("journal", len(i.Journal), MaxID)
	if !i.State.Ended() { // what was refused need not make sense, nor name a queue that there could be
		r.atMost("queue", len(i.Queue), maxQueueName)
		r.check(i.Resources.Check())
	}
	if i.State == compute.StateNone {
		r.refuse(compute.Invalid("state", i.State.String(), "say which"))
	}
	if i.State.OnHost() && i.Host == "" {
		r.refuse(compute.Invalid("host", "", "an instance that is "+i.State.String()+" has one"))
	}
}

func (r *reader) command(c compute.Command) {
	about := !c.Op.AboutHost()
	if about {
		r.whose(c.Project, c.Instance)
		r.key([]byte(c.Instance))
	}
	r.atMost("claim", len(c.Claim), MaxID)
	r.atMost("queue", len(c.Queue), maxQueueName)
	perhaps(r, c.Group)
	if c.Power != nil {
		r.atMost("power.command", len(c.Power.Command), MaxID)
	}
	if b := c.Build; about && b != nil && (b.Instance != c.Instance || b.Project != c.Project) {
		r.refuse(compute.Invalid("build", string(b.Instance), "it must be of the command's own instance"))
	}
}

func (r *reader) inventory(i compute.Inventory) {
	r.amounts("inventory.totals", i.Totals, 0)
	r.amounts("inventory.reserved", i.Reserved, 0)
	r.amounts("inventory.unmanaged", i.Unmanaged, 0)
	r.amounts("inventory.largest", i.Largest, 0)
}

const maxQueueName = compute.MaxQueueName

var topicPart = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func (r *reader) queue(q compute.Queue) {
	if !topicPart.MatchString(string(q.Name)) {
		r.refuse(compute.Invalid("name", string(q.Name), "give what can be part of a topic's name"))
	}
	r.atMost("group", len(q.Group), maxQueueName)
	r.check(q.Resources.Check())
	r.traits(q.Required, q.Forbidden)
	if q.TopicID != "" && !topicPart.MatchString(string(q.TopicID)) {
		r.refuse(compute.Invalid("topic_id", string(q.TopicID), "give Kafka's id of the topic"))
	}
}

func (r *reader) flavor(f compute.Flavor) {
	r.check(f.Name.Check())
	if len(f.Resources) == 0 {
		r.refuse(compute.Invalid("resources", "", "a flavor uses at least one, or a host would run any number of it"))
	}
	r.check(f.Resources.Check())
	r.traits(f.Required, f.Forbidden)
	r.atMost("capabilities", len(f.Capabilities), compute.MaxChoices)
	for _, a := range f.Capabilities {
		r.check(a.Check())
	}
}

func (r *reader) capability(c compute.Capability) {
	r.check(c.Axis.Check())
	for _, v := range c.Values {
		r.check(v.Value.Check())
		r.check(v.Consumes.Check())
		r.traits(v.Requires)
	}
}

func (r *reader) quota(q compute.Quota) {
	if q.Project != compute.DefaultQuota {
		r.check(q.Project.Check())
	}
	r.amounts("limits", q.Limits, 0)
	for _, limits := range q.Classes {
		r.amounts("classes.limits", limits, 0)
	}
	r.check(compute.CheckWeight(q.Weight))
}
