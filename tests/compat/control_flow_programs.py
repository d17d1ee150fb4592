"""Functions with control flow over tensors, written as TensorFlow's guides write them."""
# ruff: noqa: SIM108


def branch(tf):
    @tf.function
    def double_if_positive(x):
        if tf.reduce_sum(x) > 0:
            y = x * 2
        else:
            y = x - 1
        return y

    return [double_if_positive(tf.constant([1.0, 2.0])), double_if_positive(tf.constant([-1.0]))]


def loops(tf):
    @tf.function
    def add_odd(n):
        total = tf.constant(0)
        for i in tf.range(n):
            if i % 2 == 0:
                continue
            if i > 20:
                break
            total += i
        while total < 100:
            total = total * 2
        return total

    return [add_odd(tf.constant(10)), add_odd(tf.constant(50))]


def early_return(tf):
    @tf.function
    def first_negative(x):
        for value in x:
            if value < 0 and value > -100:
                return value
        return tf.constant(0.0)

    given = [[1.0, -2.0, -3.0], [1.0, 2.0, 3.0], [-200.0, 1.0, -5.0]]
    return [first_negative(tf.constant(row)) for row in given]


def called_functions(tf):
    def clipped(x):
        return x if x < 5 else tf.constant(5, tf.int64)

    return list(tf.data.Dataset.range(8).map(lambda x: clipped(x) + 1))


def while_in_map(tf):
    def collatz(x):
        n = tf.constant(0, tf.int64)
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            n += 1
        return n

    return list(tf.data.Dataset.range(1, 9).map(collatz))


def over_dataset(tf):
    @tf.function
    def large(data):
        total = tf.constant(0, tf.int64)
        for x in data:
            if x > 2:
                total += x
        return total

    return [large(tf.data.Dataset.range(6))]


PROGRAMS = [branch, loops, early_return, called_functions, while_in_map, over_dataset]
