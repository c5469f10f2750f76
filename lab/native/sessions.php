<?php
// Sessions of users in an array: some begin, most are read by a power law, the oldest leave: `sessions.php ROUNDS`.
mt_srand(7);
$sessions = [];
$sum = 0;
for ($round = 0; $round < (int) $argv[1]; $round++) {
    for ($i = 0; $i < 4000; $i++) {
        $id = $round * 4000 + $i;
        $sessions[$id] = ['user' => "user $id", 'cart' => range($id, $id + mt_rand(1, 20)), 'seen' => $round];
    }
    for ($i = 0; $i < 20000; $i++) {
        $id = $round * 4000 + 3999 - (int) (pow(mt_rand() / mt_getrandmax(), 3) * min($round + 1, 15) * 4000);
        if (isset($sessions[$id])) {
            $sessions[$id]['seen'] = $round;
            $sum += count($sessions[$id]['cart']);
        }
    }
    if ($round >= 15) {
        for ($i = 0; $i < 4000; $i++) {
            unset($sessions[($round - 15) * 4000 + $i]);
        }
    }
}
echo $sum, "\n";
