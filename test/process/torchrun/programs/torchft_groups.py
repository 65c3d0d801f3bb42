"""Two replica groups that average a number by torchft. A rank of group 1 dies once; the program ends when the new
processes have taken part in three steps."""
import os
from datetime import timedelta

import torch
from torchft import Manager, ProcessGroupGloo

group, rank = os.environ["REPLICA_GROUP_ID"], int(os.environ["RANK"])
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
state = {"sum": 0.0}
manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=10)), load_state_dict=state.update,
                  state_dict=lambda: dict(state), min_replica_size=1, replica_id=f"group_{group}",
                  timeout=timedelta(seconds=30))
alone = met = together = 0
while together < 3:
    manager.start_quorum()
    value = torch.tensor([1.0, float(restarts)])
    manager.allreduce(value).wait()
    if not manager.should_commit():
        continue
    state["sum"] += value[0].item()
    both = manager.num_participants() == 2  # on a busy machine a group may be missed for a step
    together += both and value[1].item() > 0
    met += both
    alone += met > 0 and not both
    if group == "1" and rank == 1 and restarts == 0 and met == 3:
        os._exit(9)
print(f"result {group} {rank}: {restarts} restarts, {'alone' if alone else 'accompanied'}, "
      f"step {manager.current_step()}, sum {state['sum']:g}", flush=True)
manager.shutdown(wait=False)
